"""Values that are stored as JSON: inputs of runs, contexts of events, outputs of steps."""

import contextlib
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from atlas.bounds import DEFAULT_MAX_OUTPUT, MAX_INPUT
from atlas.db.pg_json import TooLarge, holds_nul, is_larger, stored_json, without_nul
from atlas.engine.jobs.verdicts import PermanentError, describe
from atlas.errors import FieldError, InvalidInput

# A run's input travels inside its job's input, which has the limit of every job.
INPUT_BYTES = MAX_INPUT - 2048
# The output of a job whose handler returned None.
NO_OUTPUT = "{}"
# What `show` keeps of a step's arguments.
ARGUMENT_BYTES = 8 * 1024


def object_text(what: str, value: Mapping[str, Any], *, field: str, limit: int = INPUT_BYTES) -> str:
    """A JSON object as text, or InvalidInput: plain, not too large, without the one character Postgres refuses."""
    if not isinstance(value, Mapping):
        raise InvalidInput(what, [FieldError(field, "is not a JSON object")])
    try:
        text = orjson.dumps(dict(value), default=_plain).decode()
    except TypeError as error:
        raise InvalidInput(what, [FieldError(field, f"is not plain JSON: {error}")]) from error
    if is_larger(text, limit):
        raise InvalidInput(what, [FieldError(field, f"is larger than {limit // 1024} KiB")])
    if holds_nul(text):
        raise InvalidInput(what, [FieldError(field, "contains the character U+0000")])
    return text


class StepFunction:
    """How a step's function is called, and how its result becomes JSON and is read back.

    The first execution and every replay give the same value: it is read back from what is stored, as the type that
    the function's annotation names, or as plain JSON.
    """

    __slots__ = ("adapter", "is_async")

    def __init__(self, is_async: bool, adapter: TypeAdapter[Any] | None) -> None:
        self.is_async = is_async
        self.adapter = adapter

    def dump(self, value: Any) -> str:
        """The stored form of a result."""
        try:
            if self.adapter is None:
                return stored_json(value, default=_plain, limit=DEFAULT_MAX_OUTPUT)
            return _typed_json(self.adapter, value)
        except (TypeError, ValueError) as error:
            raise PermanentError(f"The step's result is not JSON: {error}.") from error
        except TooLarge as error:
            raise PermanentError(
                f"The step's result has {error} bytes as JSON; {DEFAULT_MAX_OUTPUT:,} are allowed.",
                remedy="Store the data elsewhere and return where to find it.",
            ) from None

    def load(self, text: str | None) -> Any:
        """A result from its stored form."""
        if text is None:
            return None
        if self.adapter is None:
            return orjson.loads(text)
        # A field is stored under its own name; its alias may be for reading or for writing only, or be another's name.
        try:
            return self.adapter.validate_json(text, by_alias=False, by_name=True)
        except ValidationError:
            return self.adapter.validate_json(text, by_alias=True, by_name=True)


PLAIN = StepFunction(True, None)
PLAIN_SYNC = StepFunction(False, None)
_inspected: "WeakKeyDictionary[Callable[..., Any], StepFunction]" = WeakKeyDictionary()


def step_function(function: Callable[..., Any]) -> StepFunction:
    """How a function is called, inspected once."""
    try:
        return _inspected[function]
    except (KeyError, TypeError):
        inspected = _inspect(function)
    # A callable that cannot be cached is inspected every time.
    with contextlib.suppress(TypeError):
        _inspected[function] = inspected
    return inspected


def job_output_reader(job: Any) -> Callable[[str], Any]:
    """Reads the output of a job from its stored form: as the type that its function returns, or as plain JSON."""
    if isinstance(job, str) or "return" not in getattr(job, "__annotations__", {}):
        return orjson.loads
    inspected = step_function(job)

    def read(text: str) -> Any:
        if text == NO_OUTPUT and typing.get_type_hints(job).get("return") is type(None):
            return None
        try:
            return inspected.load(text)
        except ValidationError as error:
            if text == NO_OUTPUT:
                with contextlib.suppress(ValidationError):
                    return inspected.load("null")
            raise PermanentError(
                f"The output of a job does not fit what {job.__qualname__} returns: {describe(error)}",
                remedy="Return what survives JSON, or name the job type to get plain JSON.",
            ) from error

    return read


def arguments_text(arguments: tuple[Any, ...]) -> str | None:
    """The arguments of a step as they are shown; nothing is ever read back from them."""
    if not arguments:
        return None
    try:
        text = stored_json(arguments, default=_preview)
    except TypeError:
        return '["(not JSON)"]'
    return text if len(text) <= ARGUMENT_BYTES else f'["({len(text)} characters)"]'


def _inspect(function: Callable[..., Any]) -> StepFunction:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    is_async = inspect.iscoroutinefunction(inner)
    if not is_async and not isinstance(inner, FunctionType):
        is_async = inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004
    annotation = _return_type(inner)
    if annotation is None:
        return PLAIN if is_async else PLAIN_SYNC
    try:
        return StepFunction(is_async, TypeAdapter(annotation))
    except PydanticUserError:
        return PLAIN if is_async else PLAIN_SYNC


def _return_type(function: Callable[..., Any]) -> Any | None:
    """The annotated type of a result, where reading it back as plain JSON would lose something."""
    if "return" not in getattr(function, "__annotations__", {}):
        return None
    try:
        annotation = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None
    return None if annotation in (None, type(None), Any, str, int, float, bool, dict, list, object) else annotation


def _typed_json(adapter: TypeAdapter[Any], value: Any) -> str:
    # By name, also where a model asks for its aliases: those for writing are not read.
    try:
        text = adapter.dump_json(value, by_alias=False)
    except PydanticSerializationError:
        return stored_json(adapter.dump_python(value, mode="json", by_alias=False), limit=DEFAULT_MAX_OUTPUT)
    if len(text) > DEFAULT_MAX_OUTPUT:
        raise TooLarge(len(text))
    return without_nul(text.decode())


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def _preview(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else repr(value)[:200]


def target_text(target: str, input: Mapping[str, Any]) -> str:
    """What `show` displays of a child: large inputs are to be read in the child itself."""
    text = orjson.dumps({"target": target, "input": input}).decode()
    if len(text) <= ARGUMENT_BYTES:
        return text
    return orjson.dumps({"target": target, "input": f"({len(text)} characters)"}).decode()
