"""Instances as text: their tasks and variables, without the process they are of, which is kept once for all of them."""

import json
import threading
from typing import Any, Final

from SpiffWorkflow.bpmn import BpmnWorkflow
from SpiffWorkflow.bpmn.serializer import BpmnWorkflowSerializer
from SpiffWorkflow.bpmn.serializer.config import DEFAULT_CONFIG
from SpiffWorkflow.bpmn.serializer.default.workflow import BpmnWorkflowConverter, WorkflowConverter

from tickwheel.workflow.spiff.definitions import Specs

__all__ = ["read_body", "write_body"]


class StateConverter(BpmnWorkflowConverter):  # type: ignore[misc]
    """SpiffWorkflow's own way of writing an instance, but for its specs."""

    def to_dict(self, workflow: Any) -> dict[str, Any]:
        """Write all but the specs."""
        written: dict[str, Any] = WorkflowConverter.to_dict(self, workflow)
        written["subprocesses"] = self.mapping_to_dict(workflow.subprocesses)
        written["bpmn_events"] = self.registry.convert(workflow.bpmn_events)
        return written


SERIALIZER: Final = BpmnWorkflowSerializer(
    BpmnWorkflowSerializer.configure({**DEFAULT_CONFIG, BpmnWorkflow: StateConverter})
)
ONE_AT_A_TIME: Final = threading.Lock()  # the serializer has a mode, which it forgets when another is done


def write_body(workflow: Any) -> str:
    """Write an instance."""
    with ONE_AT_A_TIME:
        written: str = SERIALIZER.serialize_json(workflow)
    return written


def read_body(body: str, specs: Specs, script_engine: Any) -> Any:
    """Read an instance; the script engine is not part of it and is given anew."""
    written = json.loads(body)
    SERIALIZER.migrate(written)
    # What is no dictionary is taken as it is: the specs are put in where they would have been written.
    workflow = SERIALIZER.from_dict({**written, "spec": specs.process, "subprocess_specs": specs.inner})
    workflow.script_engine = script_engine
    return workflow
