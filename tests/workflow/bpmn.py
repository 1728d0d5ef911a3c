"""BPMN as short as it can be: a process in a line or two for each node."""

from itertools import count, pairwise

__all__ = ["boundary", "catch", "ends", "flow", "process", "script", "timer", "user"]

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" id="d" targetNamespace="http://example.org">'
)
numbers = count()


def process(*nodes: str, name: str = "p", more: str = "") -> str:
    """Return a whole file, with one executable process."""
    return f'{HEAD}<process id="{name}" isExecutable="true">{"".join(nodes)}</process>{more}</definitions>'


def flow(*names: str) -> str:
    """Connect nodes in a row; the first of all is `begin` and the last `end`, unless said otherwise."""
    return "".join(
        f'<sequenceFlow id="f{next(numbers)}" sourceRef="{one}" targetRef="{other}"/>' for one, other in pairwise(names)
    )


def ends(*names: str) -> str:
    return '<startEvent id="begin"/>' + "".join(f'<endEvent id="{name}"/>' for name in names or ("end",))


def user(name: str) -> str:
    return f'<userTask id="{name}"/>'


def script(name: str, code: str) -> str:
    return f'<scriptTask id="{name}"><script>{code}</script></scriptTask>'


def timer(kind: str, expression: str) -> str:
    """Return what a node waits for: `duration`, `date` or `cycle`."""
    tag = {"duration": "timeDuration", "date": "timeDate", "cycle": "timeCycle"}[kind]
    return f'<timerEventDefinition id="t{next(numbers)}"><{tag}>{expression}</{tag}></timerEventDefinition>'


def catch(name: str, what: str) -> str:
    return f'<intermediateCatchEvent id="{name}">{what}</intermediateCatchEvent>'


def boundary(name: str, on: str, what: str, *, interrupting: bool = True) -> str:
    cancel = str(interrupting).lower()
    return f'<boundaryEvent id="{name}" attachedToRef="{on}" cancelActivity="{cancel}">{what}</boundaryEvent>'
