"""Workflows and time: what happens to work that nobody does, whatever engine it is in.

`TimeoutMonitor` stands on any engine that keeps the contract of `WorkflowEngine`; `tickwheel.workflow.spiff` is one.
"""

from tickwheel.workflow.contract import WorkflowEngine, WorkItem, WorkState
from tickwheel.workflow.monitor import TimeoutMonitor
from tickwheel.workflow.rules import TimeoutAction, TimeoutRule

__all__ = ["TimeoutAction", "TimeoutMonitor", "TimeoutRule", "WorkItem", "WorkState", "WorkflowEngine"]
