"""What a function is called with: the arguments of its task by name, and its context if it asks for one."""

from collections.abc import Callable
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any, NamedTuple, get_args

from tickwheel.errors import InvalidArguments
from tickwheel.tasks import Flag, Handler, Task, TaskContext
from tickwheel.tasks.record import copy_json

__all__ = ["fit"]

FUNCTIONS_MAX = 4096  # signatures that are remembered; more handlers than a program has
NESTED = (dict, list)
NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class Shape(NamedTuple):
    """The parameters of a function."""

    names: frozenset[str]
    required: tuple[str, ...]
    nameless: tuple[str, ...]  # required too, but taken by position only
    contexts: tuple[str, ...]  # those that take the context
    open: bool  # to any other name


def fit(handler: Handler, task: Task, stop: Flag) -> dict[str, Any]:
    """Return the arguments for a run; raise `InvalidArguments` if the function does not take them."""
    if handler.takes_task:
        return {"task": task}
    shape = shape_of(handler.function)
    given = task.args
    for value in given.values():
        if type(value) in NESTED:  # what the function does to it is not for the record, nor for the next attempt
            given = copy_json(given)
            break
    if shape is None or (len(given) == len(shape.names) and shape.names.issuperset(given) and not shape.nameless):
        return given
    arguments = dict(given)
    for name in shape.contexts:
        if name not in arguments:
            arguments[name] = TaskContext(task, stop)
    missing = [*shape.nameless, *(name for name in shape.required if name not in arguments)]
    unexpected = [] if shape.open else [name for name in arguments if name not in shape.names]
    if missing or unexpected:
        raise InvalidArguments(handler.name, task.id, missing, unexpected)
    return arguments


@lru_cache(maxsize=FUNCTIONS_MAX)
def shape_of(function: Callable[..., Any]) -> Shape | None:
    """Read the parameters of a function; None if it does not tell, as some builtins."""
    try:
        try:
            parameters = signature(function, eval_str=True).parameters.values()
        except (NameError, AttributeError, SyntaxError, TypeError):  # annotated with what is imported for types only
            parameters = signature(function).parameters.values()
    except ValueError:
        return None
    named = [each for each in parameters if each.kind in NAMED]
    required = [each for each in parameters if each.default is Parameter.empty]
    return Shape(
        names=frozenset(each.name for each in named),
        required=tuple(each.name for each in required if each.kind in NAMED),
        nameless=tuple(each.name for each in required if each.kind is Parameter.POSITIONAL_ONLY),
        contexts=tuple(each.name for each in named if takes_context(each)),
        open=any(each.kind is Parameter.VAR_KEYWORD for each in parameters),
    )


def takes_context(parameter: Parameter) -> bool:
    """Tell whether a parameter is for the context: by its annotation, or by its name."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return parameter.name == "context" or annotation.split("|")[0].strip().split(".")[-1] == TaskContext.__name__
    return parameter.name == "context" or TaskContext in (annotation, *get_args(annotation))
