"""Processes as they are deployed: read from BPMN, known by their hash, with timers that can be relied on."""

import ast
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from lxml.etree import LxmlError
from SpiffWorkflow.bpmn.parser.BpmnParser import BpmnParser
from SpiffWorkflow.bpmn.specs.event_definitions.multiple import MultipleEventDefinition
from SpiffWorkflow.bpmn.specs.event_definitions.timer import (
    CycleTimerEventDefinition,
    DurationTimerEventDefinition,
    TimerEventDefinition,
)
from SpiffWorkflow.exceptions import SpiffWorkflowException

from tickwheel.errors import InvalidProcess
from tickwheel.workflow.instances import Definition
from tickwheel.workflow.spiff.timers import check_interval, check_value, timers_in

__all__ = ["Specs", "read", "specs_of"]


class Specs:
    """What a definition means to SpiffWorkflow; the same for all its instances, and never changed."""

    def __init__(self, process: Any, inner: dict[str, Any]) -> None:
        self.process = process
        self.inner = inner  # sub-processes and called processes, by name

    def timers(self) -> Iterator[tuple[Any, list[Any]]]:
        """List the nodes that wait for timers, in all of it."""
        for spec in (self.process, *self.inner.values()):
            for node in spec.task_specs.values():
                timers = timers_in(getattr(node, "event_definition", None))
                if timers:
                    yield node, timers


def read(files: Mapping[str, str], process: str | None = None) -> list[Definition]:
    """Read BPMN and return its processes, or the one that is asked for; whatever could not be run is refused."""
    parser = _parse(files)
    names = [process] if process is not None else parser.get_process_ids()
    if not names:
        raise InvalidProcess(f"there is no executable process in {', '.join(files)}: see isExecutable")
    definitions = []
    for name in names:
        digest = sha256("\0".join([name, *(f"{file}\0{files[file]}" for file in sorted(files))]).encode())
        definition = Definition(hash=digest.hexdigest(), process=name, files=dict(files))
        _check(specs_of(definition))
        definitions.append(definition)
    return definitions


def specs_of(definition: Definition) -> Specs:
    """Return what a definition means to SpiffWorkflow."""
    parser = _parse(definition.files)
    try:
        return Specs(parser.get_spec(definition.process), parser.get_subprocess_specs(definition.process))
    except (SpiffWorkflowException, NotImplementedError) as error:
        raise InvalidProcess(f"process {definition.process!r} cannot be read: {error}") from error


def _parse(files: Mapping[str, str]) -> Any:
    parser = BpmnParser()
    for name, text in files.items():
        try:
            parser.add_bpmn_str(text.encode(), name)
        except (SpiffWorkflowException, LxmlError) as error:
            raise InvalidProcess(f"{name} is no BPMN that can be read: {error}") from error
    return parser


def _check(specs: Specs) -> None:
    """Refuse timers that could not be relied on, as far as it can be seen before they run."""
    for node, timers in specs.timers():
        if isinstance(node.event_definition, MultipleEventDefinition):
            if len(timers) > 1:
                raise InvalidProcess(
                    f"node {node.name!r} waits for {len(timers)} timers, and SpiffWorkflow keeps one moment for all: "
                    "let it wait for one, and put the others elsewhere"
                )
            if isinstance(timers[0], CycleTimerEventDefinition):
                raise InvalidProcess(f"node {node.name!r} waits for a cycle beside other events, which never comes")
        for timer in timers:
            _check_constant(timer)


def _check_constant(timer: Any) -> None:
    """Refuse a timer that is wrong whatever the variables are; SpiffWorkflow reads it as it will when it runs."""
    try:
        value = ast.literal_eval(timer.expression)
    except (ValueError, SyntaxError):  # it has variables in it: it is seen when it runs
        return
    check_value(timer, value)
    interval = None
    try:
        if isinstance(timer, CycleTimerEventDefinition):
            interval = TimerEventDefinition.parse_iso_recurring_interval(value)[2]
        elif isinstance(timer, DurationTimerEventDefinition):
            TimerEventDefinition.parse_iso_duration(value)
    except Exception as error:
        raise InvalidProcess(f"timer {timer.name!r} is due at {value!r}, which is no time: {error}") from error
    if interval is not None:
        check_interval(timer, interval.total_seconds())
