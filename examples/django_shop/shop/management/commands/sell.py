"""`manage.py sell`: enqueue a few tasks, and wait for what becomes of them; `run_tasks` has to run somewhere."""

from datetime import timedelta
from time import sleep
from typing import Any

from django.core.management.base import BaseCommand
from django.utils.timezone import now
from django_tasks import TaskResult, default_task_backend

from shop.tasks import cancel_order, charge, send_mail


class Command(BaseCommand):
    """Sell something."""

    help = "Enqueue a few tasks, and wait for their results."

    def handle(self, *_: Any, **__: Any) -> None:
        """Enqueue, wait, and look results up by id."""
        later = now() + timedelta(seconds=1)  # half an hour in earnest
        results: list[TaskResult[Any]] = [
            charge.enqueue(30),
            send_mail.using(priority=50).enqueue("Ada", subject="your order"),
            cancel_order.using(run_after=later).enqueue(7),
        ]
        for enqueued in results:
            result = default_task_backend.get_result(enqueued.id)
            while not result.is_finished:
                sleep(0.05)
                result.refresh()
            errors = [error.exception_class.__name__ for error in result.errors]
            self.stdout.write(f"{result.task.name}: {result.return_value}; errors: {', '.join(errors) or 'none'}")
