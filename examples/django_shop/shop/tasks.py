"""What the shop has done later: plain tasks of Django, which know nothing of tickwheel."""

from django_tasks import TaskContext, task


@task()
def cancel_order(order: int) -> str:
    """Cancel an order."""
    return f"order {order} is cancelled"


@task(priority=10)
async def send_mail(to: str, *, subject: str) -> str:
    """Send a mail."""
    return f"{subject!r} is sent to {to}"


@task(takes_context=True)
def charge(context: TaskContext, amount: int) -> str:
    """Charge a card; the bank answers the second time."""
    if context.attempt == 1:
        raise ConnectionError("the bank does not answer")
    return f"{amount} charged at attempt {context.attempt}"
