"""Expenses that wait for a manager: reminders, escalation, and an end though nobody answers.

    python examples/approval/approval.py               # three expenses in a temporary folder; it takes six seconds
    python examples/approval/approval.py --keep        # in approval.db; stop it and start it again as often as you like

The process is in expense.bpmn, to be opened in any BPMN editor. Its times are variables: here a reminder every second,
escalation after two and a half and an end after two more; it would be days.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from SpiffWorkflow.bpmn.script_engine import PythonScriptEngine, TaskDataEnvironment

from tickwheel import AsyncScheduler, aio
from tickwheel.workflow.spiff import SpiffEngine

HERE = Path(__file__).parent
TIMES = {"remind_every": "PT1S", "escalate_after": "PT2.5S", "give_up_after": "PT2S"}


def tell(expense: str, what: str) -> None:
    """Stand for an e-mail: scripts of the process call it."""
    print(f"{expense}: {what}", flush=True)


def open_engine(folder: Path) -> SpiffEngine:
    """Make the engine, with what its scripts may call."""
    scheduler = AsyncScheduler(f"sqlite:///{folder}/approval-tasks.db")
    scripts = PythonScriptEngine(TaskDataEnvironment({"tell": tell}))
    return SpiffEngine(f"sqlite:///{folder}/approval.db", scheduler, script_engine=scripts)


async def decide(engine: SpiffEngine, expense: str, node: str, by: str, decision: str) -> None:
    """Wait until an expense is on somebody's desk, and decide."""
    while not (items := await engine.items(instance=expense, node=node)):  # noqa: ASYNC110 - a desk is looked at
        await asyncio.sleep(0.05)
    await engine.complete(items[0].id, by=by, variables={"decision": decision})
    print(f"{expense}: {by} said {decision}", flush=True)


async def main(folder: Path) -> None:
    """Claim three expenses: one is approved, one is escalated, and of one nobody says anything."""
    async with open_engine(folder) as engine:
        await engine.deploy(HERE / "expense.bpmn")
        expenses = ("taxi", "hotel", "lunch")
        for expense in expenses:
            await engine.start("expense", {"expense": expense, **TIMES}, id=expense)
        if await engine.items(instance="taxi"):
            await decide(engine, "taxi", "approve", "Ann", "yes")
        if (await engine.get("hotel")).status == "running":
            await decide(engine, "hotel", "decide", "the director", "no")
        while [each for each in expenses if (await engine.get(each)).status == "running"]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)
        for expense in expenses:
            print(f"{expense} is {(await engine.get(expense)).data['outcome']}", flush=True)


if __name__ == "__main__":
    if "--keep" in sys.argv:
        aio.run(main(Path.cwd()))
    else:
        with tempfile.TemporaryDirectory() as name:
            aio.run(main(Path(name)))
