"""The settings of a shop: as few as Django gets along with."""

import os
from typing import Any

from tickwheel import RetryPolicy

SECRET_KEY = "for a demonstration"  # noqa: S105
USE_TZ = True
INSTALLED_APPS = ["django_tasks", "shop"]
TASKS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "shop.backend.TickwheelBackend",
        "QUEUES": [],  # of any name
        "OPTIONS": {
            "store": os.environ.get("TASKS", "sqlite:///tasks.db"),
            "retry": RetryPolicy(retries=3, first_ms=500),
        },
    }
}
