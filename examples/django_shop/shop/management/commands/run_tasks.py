"""`manage.py run_tasks`: run the tasks that are due, until SIGINT or SIGTERM; any number of them share the work."""

from typing import Any

from django.core.management.base import BaseCommand
from django_tasks import task_backends

from shop.backend import TickwheelBackend


class Command(BaseCommand):
    """Run tasks."""

    help = "Run the tasks that are due, until stopped."

    def handle(self, *_: Any, **__: Any) -> None:
        """Run them; at the end, let what runs end."""
        backend = task_backends["default"]
        assert isinstance(backend, TickwheelBackend)
        with backend.worker() as scheduler:
            self.stdout.write("at work")
            self.stdout.flush()
            scheduler.run_forever()
