"""Job types: the handlers that this process registered with `@job`, and how their inputs are checked."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from atlas.bounds import DEFAULT_MAX_OUTPUT, MAX_INPUT, MAX_RETRIES
from atlas.engine.jobs.backoff import RetryPolicy, policy_of
from atlas.engine.jobs.handlers.signature import PLAIN, HandlerSignature, read_signature
from atlas.engine.jobs.limits import check_key
from atlas.engine.schedules.code_schedules import declare_schedule
from atlas.engine.secrets.fields import has_secrets
from atlas.errors import AtlasError, FieldError, InvalidInput

# A program that enqueues jobs of handlers elsewhere needs no models, and should not wait for pydantic when it starts.
if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

Handler = Callable[..., Awaitable[Any] | Any]
F = TypeVar("F", bound=Callable[..., Any])

# Other spellings of a job type, stored as the one that workers serve.
ALIASES = {"EMAILSEND": "EMAIL_SEND", "email_send": "EMAIL_SEND"}
_ACTION = re.compile(r"[A-Z][A-Z0-9_]{0,99}")
# An error of a model takes some µs to describe, and all are described at once.
MAX_ERRORS = 1000
INPUT_LIMITS = {"EMAIL_SEND": 3 * 1024 * 1024}
# How many jobs a batch handler gets in a call, unless it says otherwise.
BATCH_SIZE = 100
# The most that a type may allow. A few such outputs are sent in one statement.
MAX_OUTPUT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class JobType:
    """A job type that this process can run."""

    key: str
    handler: Handler
    adapter: "TypeAdapter[Any] | None"
    is_async: bool
    takes_context: bool
    timeout: float | None
    max_retries: int
    policy: RetryPolicy
    concurrency: int | None
    description: str
    success_action: str
    # The input as JSON Schema, for processes that enqueue without knowing the handler.
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    has_secrets: bool = False
    is_command: bool = False
    max_output: int = DEFAULT_MAX_OUTPUT
    # Its events carry digests of input and output.
    audit_content: bool = False
    signature: HandlerSignature = PLAIN
    # How many jobs one call of a batch handler takes at most; 0: it is none.
    batch_size: int = 0
    # What `concurrency` and `rate` count by; None: all its jobs.
    concurrency_key: str | None = None
    # Starts such as 100/minute, and how many at once after a rest.
    rate: str | None = None
    burst: int | None = None
    # It runs in a transaction that ends its jobs.
    transactional: bool = False
    # An async handler that takes no more than its input and its context.
    is_direct: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_direct", self.is_async and self.signature.is_plain and not self.transactional)

    @property
    def limit_by(self) -> str | None:
        """The key by which its jobs are held until there is room: '' for one limit of all; None: they are not held."""
        return self.concurrency_key or ("" if self.rate is not None else None)

    def parse(self, text: str) -> Any:
        """The handler's input, or PermanentError with the field and the reason."""
        if self.adapter is None:
            return orjson.loads(text)
        try:
            return self.adapter.validate_json(text)
        except _validation_error() as error:
            from atlas.engine.jobs.verdicts import PermanentError

            reasons = "; ".join(str(problem) for problem in field_errors(error)[:5])
            raise PermanentError(f"The input does not fit {self.key}: {reasons}.") from error

    def check(self, text: str) -> None:
        """Refuse an input that the handler could not take, before it becomes a job."""
        if self.adapter is not None:
            _require(self.key, self.adapter, text)


class DuplicateJobType(AtlasError):
    """Two handlers claim the same job type."""


_registry: dict[str, JobType] = {}
# The models of types whose handlers are in other processes.
_models: "dict[str, TypeAdapter[Any]]" = {}


def registered() -> Mapping[str, JobType]:
    """The job types of this process, by key."""
    return _registry


def know_input(key: str, model: Any) -> None:
    """Have inputs of this type checked by its model in a process that enqueues such jobs and runs none.

    The schema that workers publish checks less than the model. A handler in this process takes precedence.
    """
    _models[key] = _adapter(model)


def secret_schema(key: str) -> Mapping[str, Any] | None:
    """The schema of a type whose input has secrets, where this process knows the handler or its model."""
    registered_type = _registry.get(key)
    if registered_type is not None:
        return registered_type.input_schema if registered_type.has_secrets else None
    return _schema_of_model(_models[key]) if key in _models else None


@lru_cache(maxsize=64)
def _schema_of_model(adapter: "TypeAdapter[Any]") -> Mapping[str, Any] | None:
    schema = adapter.json_schema()
    return schema if has_secrets(schema) else None


def check_input(key: str, text: str) -> None:
    """Refuse an input that the type's handler could not take, where this process knows the handler or its model."""
    registered_type = _registry.get(key)
    if registered_type is not None:
        registered_type.check(text)
    elif key in _models:
        _require(key, _models[key], text)


def canonical(job_type: str) -> str:
    """The spelling that is stored."""
    return ALIASES.get(job_type, job_type)


def input_limit(job_type: str) -> int:
    """How many bytes the input of this type may have."""
    return INPUT_LIMITS.get(job_type, MAX_INPUT)


def job(
    key: str,
    *,
    timeout: float | timedelta | None = None,
    max_retries: int | None = None,
    retry: RetryPolicy | str | dict[str, Any] | None = None,
    concurrency: int | None = None,
    concurrency_key: str | None = None,
    rate: str | None = None,
    burst: int | None = None,
    success_action: str = "JOB_SUCCEEDED",
    max_output: int = DEFAULT_MAX_OUTPUT,
    audit_content: bool = False,
    batch_size: int | None = None,
    transactional: bool = False,
    cron: str | None = None,
    timezone: str | None = None,
    tenant: str | None = None,
) -> Callable[[F], F]:
    """Register the decorated function as the handler of a job type.

    Its first parameter is the input (annotate it with a pydantic model to have it checked), a parameter annotated
    `JobContext` is optional. A plain function runs in a thread, an async one on the event loop. What it returns may
    have `max_output` bytes as JSON. With `audit_content` the events of its jobs carry digests of input and output.
    Parameters of other types get what a `lifespan` yields. A function whose input is a list gets several jobs of one
    tenant in a call, at most `batch_size`, and returns None or a list with an output or an exception for each.
    At most `concurrency` of its jobs run at a time, and start at a `rate` such as "100/minute", at most `burst` at once
    after a rest. With a `concurrency_key` such as "{{ input.customer }}" both count for each value and tenant.
    With `transactional` the handler runs in a transaction on the application's database (`ctx.connection`): what it
    writes and the job's success are one commit.
    With `cron` it is also started by a schedule, with an empty input: in this time zone (else the tenant's), for this
    tenant (else `system`).
    """

    policy = policy_of(retry)
    limits = {"concurrency": concurrency, "concurrency_key": concurrency_key, "rate": rate, "burst": burst}
    events = {"success_action": success_action, "max_output": max_output, "audit_content": audit_content}
    options: dict[str, Any] = {"policy": policy, "transactional": transactional, **limits, **events}
    options["max_retries"] = policy.max_retries if max_retries is None else max_retries
    options["timeout"] = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout

    def register(function: F) -> F:
        job_type = _job_type(key, function, batch_size, options)
        if cron is not None and job_type.adapter is not None:
            _require(f"{key}, when its schedule starts it", job_type.adapter, "{}")
        add_job_type(job_type)
        declare_schedule("job_type", key, cron, timezone=timezone, tenant=tenant, module=function.__module__)
        return function

    return register


def _job_type(key: str, function: Handler, batch_size: int | None, options: Mapping[str, Any]) -> JobType:
    signature = read_signature(function)
    adapter = None if signature.input_type is None else _adapter(signature.input_type)
    schema = {} if adapter is None else adapter.json_schema()
    return JobType(
        key=key,
        handler=function,
        adapter=adapter,
        is_async=inspect.iscoroutinefunction(function),
        takes_context=signature.context is not None,
        description=inspect.getdoc(function) or "",
        input_schema=schema,
        has_secrets=has_secrets(schema),
        signature=signature,
        batch_size=_batch_size(key, signature, batch_size, schema),
        **options,
    )


def add_job_type(job_type: JobType) -> None:
    """Make a job type known to this process."""
    registered_type = _registry.get(job_type.key)
    if registered_type is not None and registered_type.handler.__qualname__ != job_type.handler.__qualname__:
        raise DuplicateJobType(
            f"The job type {job_type.key!r} is handled by {registered_type.handler.__qualname__} already.",
            remedy="Give one of the two handlers another job type.",
        )
    if job_type.concurrency is not None and job_type.concurrency < 1:
        raise InvalidInput(f"The job type {job_type.key!r}", [FieldError("concurrency", "is less than 1")])
    if wrong := check_key(job_type.concurrency, job_type.concurrency_key, job_type.rate, job_type.burst):
        raise InvalidInput(f"The job type {job_type.key!r}", wrong)
    if not 0 <= job_type.max_retries <= MAX_RETRIES:
        reason = f"is not between 0 and {MAX_RETRIES:,}"
        raise InvalidInput(f"The job type {job_type.key!r}", [FieldError("max_retries", reason)])
    if not 1 <= job_type.max_output <= MAX_OUTPUT:
        reason = f"is not between 1 and {MAX_OUTPUT:,} bytes"
        raise InvalidInput(f"The job type {job_type.key!r}", [FieldError("max_output", reason)])
    if job_type.transactional and not job_type.is_async:
        reason = "goes with an async handler; in a plain one use the `transaction` of atlas.integrations"
        raise InvalidInput(f"The job type {job_type.key!r}", [FieldError("transactional", reason)])
    if not _ACTION.fullmatch(job_type.success_action):
        reason = f"{job_type.success_action!r} is not like ORDER_SHIPPED: capitals, digits and underscores"
        raise InvalidInput(f"The job type {job_type.key!r}", [FieldError("success_action", reason)])
    _registry[job_type.key] = job_type


def _adapter(model: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def _validation_error() -> "type[ValidationError]":
    # What `except` names is looked at when something was raised.
    from pydantic import ValidationError

    return ValidationError


def _require(key: str, adapter: "TypeAdapter[Any]", text: str) -> None:
    try:
        adapter.validate_json(text)
    except _validation_error() as error:
        raise InvalidInput(f"The input of {key}", field_errors(error)) from error


def field_errors(error: "ValidationError") -> list[FieldError]:
    """What pydantic found, as field and reason, without the values: they may be secret."""
    if error.error_count() > MAX_ERRORS:
        return [FieldError("", f"has {error.error_count():,} mistakes, too many to name; send less")]
    return [
        FieldError(".".join(str(part) for part in problem["loc"]), problem["msg"].removeprefix("Value error, "))
        for problem in error.errors(include_input=False, include_url=False)
    ]


def _batch_size(key: str, signature: HandlerSignature, asked: int | None, schema: Mapping[str, Any]) -> int:
    if not signature.is_batch:
        wrong = "goes with a handler whose input is a list" if asked is not None else ""
    else:
        wrong = "is less than 1" if asked is not None and asked < 1 else ""
    if not wrong and signature.is_batch and has_secrets(schema):
        wrong = "cannot be used with secret fields: an error or a log of the call would hold those of other jobs"
    if wrong:
        raise InvalidInput(f"The job type {key!r}", [FieldError("batch_size", wrong)])
    return (asked or BATCH_SIZE) if signature.is_batch else 0
