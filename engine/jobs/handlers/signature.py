"""Reads a handler's signature once, when it is registered: its input, its context, and what else it wants by type."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from atlas.errors import AtlasError

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class HandlerSignature:
    """What a handler takes. Its input comes first; `input_type` None means plain JSON."""

    input_type: Any | None
    # It takes a list of inputs, and of contexts.
    is_batch: bool = False
    # The name of the parameter that takes the JobContext.
    context: str | None = None
    # The types of its other parameters, by name. What has a default is left alone.
    dependencies: Mapping[str, Any] = field(default_factory=dict)
    # Its context, if it takes one, is the second parameter.
    is_plain: bool = True


# Plain JSON, and perhaps a context.
PLAIN = HandlerSignature(None)


def read_signature(function: Callable[..., Any]) -> HandlerSignature:
    """The signature of a handler, or AtlasError where Atlas would not know what to give it."""
    # A program that registers no handler needs no context, which brings much of what workers need.
    from atlas.engine.jobs.handlers.context import AttemptContext, JobContext

    hints = get_type_hints(function)
    hints.pop("return", None)
    parameters = inspect.signature(function).parameters
    first = next(iter(parameters), "")
    others = [name for name, parameter in parameters.items() if name != first and parameter.default is parameter.empty]
    annotation = hints.get(first)
    is_batch = annotation is list or typing.get_origin(annotation) is list
    context_types = (list[JobContext],) if is_batch else (JobContext, AttemptContext)
    contexts = [name for name in others if hints.get(name) in context_types]
    dependencies = {name: hints.get(name) for name in others if name not in contexts}
    untyped = [name for name, kind in dependencies.items() if kind is None]
    if not first or annotation is JobContext or len(contexts) > 1 or untyped or JobContext in dependencies.values():
        raise AtlasError(
            f"The handler {function.__qualname__} takes ({', '.join(parameters)}).",
            remedy="A handler takes its input, then optionally a parameter annotated JobContext, or list[JobContext]"
            " where the input is a list, and parameters annotated with what a lifespan yields.",
        )
    if is_batch:
        annotation = next(iter(typing.get_args(annotation)), None)
    is_json = annotation is None or annotation is Any or annotation is dict or typing.get_origin(annotation) is dict
    context = contexts[0] if contexts else None
    is_plain = not is_batch and others == contexts and all(parameters[name].kind in POSITIONAL for name in contexts)
    return HandlerSignature(None if is_json else annotation, is_batch, context, dependencies, is_plain)
