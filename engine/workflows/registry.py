"""The registry of workflows in code, filled by the `workflow` decorator."""

import difflib
import functools
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import orjson
from pydantic import TypeAdapter, ValidationError

from atlas.engine.jobs.handlers.types import field_errors
from atlas.engine.schedules.code_schedules import declare_schedule
from atlas.engine.secrets.fields import has_secrets
from atlas.engine.workflows.errors import WorkflowFailed
from atlas.errors import AtlasError

# Inputs of workflows are stored in intents, runs and histories as they were given.
SECRETS_REFUSED = "marks a field of its input as secret, and inputs of workflows are kept as they are"
SECRETS_REMEDY = "Give the secret to a job whose type or definition marks it, or let the job fetch it where it is kept."

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


@dataclass(frozen=True, slots=True)
class CodeWorkflow:
    """A workflow this process can run: `function(run, input)`."""

    key: str
    function: Callable[..., Awaitable[Any]]
    adapter: TypeAdapter[Any] | None
    description: str

    def parse(self, input: Any) -> Any:
        """The function's input, or WorkflowFailed with the field and the reason."""
        if self.adapter is None:
            return input
        try:
            return self.adapter.validate_json(orjson.dumps(input))
        except ValidationError as error:
            text = "; ".join(str(problem) for problem in field_errors(error)[:5])
            raise WorkflowFailed(f"The input does not fit the workflow {self.key}: {text}.", {}) from error

    @property
    def input_schema(self) -> dict[str, Any]:
        return {} if self.adapter is None else self.adapter.json_schema()

    @property
    def build(self) -> str:
        """The digest of the module that defines the function; of the function alone where its source is not at hand."""
        return _digest_of(inspect.unwrap(self.function))


class DuplicateWorkflow(AtlasError):
    """Two functions are registered for the same workflow."""


_registry: dict[str, CodeWorkflow] = {}


def workflow(
    key: str, *, cron: str | None = None, timezone: str | None = None, tenant: str | None = None
) -> Callable[[F], F]:
    """Register the decorated async function as a workflow: its parameters are the run, then the input.

    Annotate the input with a pydantic model to have it checked. Between its steps the function must do the same thing
    every time: it is called again from the start after each wait and each crash, and finds its steps done.
    With `cron` it is also started by a schedule, with an empty input: in this time zone (else the tenant's), for this
    tenant (else `system`).
    """

    def register(function: F) -> F:
        is_async: bool = inspect.iscoroutinefunction(function)
        if not is_async:
            raise AtlasError(
                f"The workflow {key!r} is not an async function.",
                remedy="Write it as `async def`; its steps may be plain.",
            )
        registered = _registry.get(key)
        if registered is not None and registered.function.__qualname__ != function.__qualname__:
            raise DuplicateWorkflow(
                f"The workflow {key!r} is {registered.function.__qualname__} already.",
                remedy="Give one of the two another key.",
            )
        _registry[key] = workflow = CodeWorkflow(key, function, _adapter(key, function), inspect.getdoc(function) or "")
        if cron is not None:
            workflow.parse({})
        declare_schedule("workflow", key, cron, timezone=timezone, tenant=tenant, module=function.__module__)
        return function

    return register


def registered_workflows() -> Mapping[str, CodeWorkflow]:
    """The workflows of this process, by key."""
    return _registry


def near(key: str, names: Iterable[str]) -> list[str]:
    """The known names that are most like this one."""
    return difflib.get_close_matches(key, sorted(set(names)), n=3, cutoff=0.5)


@functools.cache
def _digest_of(function: Callable[..., Any]) -> str:
    path = inspect.getsourcefile(function)
    if path is not None and Path(path).exists():
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    code = function.__code__
    return hashlib.sha256(code.co_code + repr((code.co_consts, code.co_names)).encode()).hexdigest()


def _adapter(key: str, function: Callable[..., Any]) -> TypeAdapter[Any] | None:
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2:
        raise AtlasError(
            f"The workflow {key!r} takes ({', '.join(parameters)}).", remedy="A workflow takes the run and its input."
        )
    annotation: Any = get_type_hints(function).get(parameters[1])
    plain = (
        annotation is None or annotation is Any or annotation is dict or getattr(annotation, "__origin__", None) is dict
    )
    if plain:
        return None
    adapter = TypeAdapter(annotation)
    if has_secrets(adapter.json_schema()):
        raise AtlasError(f"The workflow {key!r} {SECRETS_REFUSED}.", remedy=SECRETS_REMEDY)
    return adapter
