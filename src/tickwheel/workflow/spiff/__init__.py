"""BPMN processes on SpiffWorkflow, whose timers are durable tasks instead of something to poll (extra `workflow`)."""

from tickwheel.errors import MissingExtra

try:
    import SpiffWorkflow  # noqa: F401 - to say what is missing before anything else does
except ModuleNotFoundError as error:
    raise MissingExtra("BPMN processes", str(error.name), "workflow") from error

from tickwheel.workflow.instances.contract import Instance
from tickwheel.workflow.spiff.engine import SpiffEngine

__all__ = ["Instance", "SpiffEngine"]
