"""A new job before it is enqueued: its fields, their limits, and its dedupe key."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Any, TypedDict
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit.record import event_body
from atlas.bounds import MAX_INTEGER, MAX_RETRIES
from atlas.db.pg_json import holds_nul, stored_text
from atlas.engine.jobs.handlers.types import canonical, check_input, input_limit, registered
from atlas.engine.secrets.store import Secret
from atlas.errors import FieldError, InvalidInput
from atlas.ids import new_id

# Jobs without a tenant belong to this one; the first migration makes it.
SYSTEM_TENANT = UUID("00000000-0000-7000-8000-000000000001")

# These act on a server instance, and the host that has it runs them.
SERVER_TYPES = frozenset({"SERVER_START", "SERVER_STOP", "SERVER_RESTART"})

# Where the meta of JOB_CREATED has it, the statement writes the digest.
INPUT_DIGEST = "input_sha256"
ALWAYS_AUDITED = frozenset({"EMAIL_SEND", "EMAILSEND", "email_send"})

MAX_PRIORITY = 1_000_000
MAX_DELAY = timedelta(days=3660)
MAX_DEDUPE_KEY_LENGTH = 200


# Not frozen: a frozen one takes five times as long to make, and bulk callers make thousands.
@dataclass(slots=True)
class NewJob:
    """A job to enqueue. `input` is a JSON object; `delay` or `run_at` say when it is due, by default now."""

    job_type: str
    input: Mapping[str, Any] = field(default_factory=dict)
    tenant_id: UUID = SYSTEM_TENANT
    priority: int | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    max_retries: int | None = None
    dedupe_key: str | None = None
    correlation_id: str | None = None
    source: str | None = None
    source_ref: str | None = None
    timeout_seconds: int | None = None
    definition_id: UUID | None = None
    host_id: UUID | None = None
    server_instance_id: UUID | None = None
    parent_run_id: UUID | None = None
    # It is canceled as expired unless it has started by then, or within this time; its attempts end by `finish_by`.
    start_by: datetime | None = None
    expires_in: timedelta | None = None
    finish_by: datetime | None = None
    # Set by `enqueue_group`.
    group_id: UUID | None = None
    id: UUID = field(default_factory=new_id)
    # What was taken out of the input already; None: it was not searched for secrets yet.
    secrets: tuple[Secret, ...] | None = None
    # The actor of this job, where one call holds the jobs of several requests of the same actor.
    asked_by: Actor | None = None
    # The input as JSON text, where admission made it already.
    input_json: str | None = None
    # Its events carry digests of its input and output, as its type or its definition asks.
    audit_content: bool = False
    # Whether its type may be one that no worker and no definition has published.
    allow_unknown: bool = False

    @property
    def has_deadline(self) -> bool:
        """True when it must start or finish by some time."""
        return self.start_by is not None or self.expires_in is not None or self.finish_by is not None

    @property
    def needs_host(self) -> bool:
        """True when a host must run the job; local workers never claim it then."""
        return self.host_id is not None or self.server_instance_id is not None or self.job_type in SERVER_TYPES


class NewJobOptions(TypedDict, total=False):
    """How a job is enqueued, besides its type and its input."""

    # The slug or the id; the tenant `system` if left out.
    tenant: str | UUID
    # Who asks for it, for the audit log; the login of the connection if left out.
    actor: str
    priority: int
    delay: timedelta
    run_at: datetime
    # Those of the handler that runs it, if left out.
    max_retries: int
    timeout: timedelta
    dedupe_key: str
    # The active job that holds the key is the result, also if its input is another.
    coalesce: bool
    correlation_id: str
    # It is canceled as expired unless it has started by then, or within this time.
    start_by: datetime
    expires_in: timedelta
    # The end of its attempts, and of its retries.
    finish_by: datetime
    # Accept a type that no worker and no definition has published.
    allow_unknown: bool


def make_dedupe_key(job_type: str, tenant_id: UUID | str | None, input: Mapping[str, Any] | None) -> str:
    """A key by which a second request for the same work finds the first: `<type>::<tenant|global>::<sorted json>`.

    It is the same for any order of keys, at any depth.
    """
    written = orjson.dumps(input if input is not None else {}, option=orjson.OPT_SORT_KEYS, default=str).decode()
    return f"{job_type}::{tenant_id or 'global'}::{written}"


def hash_key(key: str) -> bytes:
    """The hash in the unique index."""
    return hashlib.sha256(key.encode()).digest()


def stored_key(key: str) -> str:
    """The key as the row shows it: its hash when it is long."""
    return key if len(key) <= MAX_DEDUPE_KEY_LENGTH else hash_key(key).hex()


def checked(job: NewJob) -> str:
    """The input as JSON text, or InvalidInput; the type's own model decides where this process knows it."""
    check_options(job)
    return checked_input(job)


def check_options(job: NewJob) -> None:
    """Refuse a job type that cannot be stored, and options beyond their limits."""
    key = canonical(job.job_type)
    if not key or len(key) > 200:
        raise InvalidInput("The job", [FieldError("job_type", "must have between 1 and 200 characters")])
    if not key.isprintable():
        raise InvalidInput("The job", [FieldError("job_type", "contains a character that cannot be printed")])
    _check_limits(job)


def checked_input(job: NewJob) -> str:
    """The input as JSON text, or InvalidInput where the type's handler could not take it."""
    key = canonical(job.job_type)
    text = job.input_json or input_text(key, job.input)
    if job.secrets is None:
        check_input(key, text)
    return text


def _check_limits(job: NewJob) -> None:
    """The limits of what a caller may set, the same for every caller."""
    if job.priority is not None and not -MAX_PRIORITY <= job.priority <= MAX_PRIORITY:
        raise _out_of_range("priority", f"is not between -{MAX_PRIORITY:,} and {MAX_PRIORITY:,}")
    if job.max_retries is not None and not 0 <= job.max_retries <= MAX_RETRIES:
        raise _out_of_range("max_retries", f"is not between 0 and {MAX_RETRIES:,}")
    if job.delay is not None and job.delay > MAX_DELAY:
        raise _out_of_range("delay", f"is longer than {MAX_DELAY.days:,} days")
    seconds = job.timeout_seconds
    if seconds is not None and not (type(seconds) is int and 1 <= seconds <= MAX_INTEGER):
        raise _out_of_range("timeout_seconds", f"is not a whole number between 1 and {MAX_INTEGER:,}")
    if job.has_deadline:
        _check_deadlines(job)
    if job.dedupe_key is not None:
        if job.dedupe_key == "":
            raise _out_of_range("dedupe_key", "is empty")
        _check_text("dedupe_key", job.dedupe_key)
    if job.correlation_id is not None:
        _check_text("correlation_id", job.correlation_id)
    if job.source_ref is not None:
        _check_text("source_ref", job.source_ref)


def _check_deadlines(job: NewJob) -> None:
    if job.start_by is not None and job.expires_in is not None:
        raise _out_of_range("expires_in", "cannot be combined with start_by")
    if job.expires_in is not None and not timedelta() < job.expires_in <= MAX_DELAY:
        raise _out_of_range("expires_in", f"is not between a microsecond and {MAX_DELAY.days:,} days")
    if job.expires_in is not None and job.delay is not None and job.expires_in <= job.delay:
        raise _out_of_range("expires_in", "is over before the delay is: the job could never start")
    for name, time in (("start_by", job.start_by), ("finish_by", job.finish_by)):
        if time is None:
            continue
        if time.tzinfo is None:
            raise _out_of_range(name, "has no time zone")
        if job.run_at is not None and job.run_at.tzinfo is not None and time <= job.run_at:
            raise _out_of_range(name, "is not after the time at which the job is due: it could never start")


def _check_text(field: str, text: str) -> None:
    if stored_text(text) != text:
        raise _out_of_range(field, "contains a character that cannot be stored: U+0000, or half of one")


def _out_of_range(field: str, reason: str) -> InvalidInput:
    return InvalidInput("The job", [FieldError(field, reason)])


def input_text(key: str, input: Mapping[str, Any]) -> str:
    """An input as JSON text; InvalidInput where it is not plain JSON, not an object, or too large."""
    try:
        written = orjson.dumps(input)
    except TypeError as error:
        raise InvalidInput(f"The input of {key}", [FieldError("input", f"is not plain JSON: {error}")]) from error
    if len(written) > input_limit(key):
        raise _too_large(key, written)
    # orjson writes null for NaN and infinities: looked for only where there is a null.
    if b"null" in written and _holds_no_number(input):
        raise InvalidInput(f"The input of {key}", [FieldError("input", "contains a number that is not finite")])
    text = written.decode()
    if text[0] != "{":
        raise InvalidInput(f"The input of {key}", [FieldError("input", "is not a JSON object")])
    if b"\\u0000" in written and holds_nul(text):
        raise InvalidInput(f"The input of {key}", [FieldError("input", "contains the character U+0000")])
    return text


def _holds_no_number(value: Any) -> bool:
    """True where a value holds NaN or an infinity."""
    match value:
        case float():
            return not isfinite(value)
        case Mapping():
            return any(map(_holds_no_number, value.values()))
        case list() | tuple():
            return any(map(_holds_no_number, value))
        case _:
            return False


def _too_large(key: str, written: bytes) -> InvalidInput:
    # The type's own model may name the field that is too large.
    check_input(key, written.decode())
    return InvalidInput(
        f"The input of {key}",
        [FieldError("input", f"is larger than {input_limit(key) // 1024} KiB")],
        remedy="Store large data elsewhere and enqueue where to find it.",
    )


def event_meta(
    job_type: str, correlation_id: str | None, actor: Actor, more: Mapping[str, str | None] | None = None
) -> str:
    """The facts of one event, as JSON."""
    if correlation_id is None and not more and not actor.meta:
        return _plain_meta(job_type)
    facts: dict[str, str | None] = {"job_type": job_type, **actor.meta, **(more or {})}
    if correlation_id is not None:
        facts["correlation_id"] = correlation_id
    return orjson.dumps(facts).decode()


@lru_cache(maxsize=1024)
def _plain_meta(job_type: str) -> str:
    return orjson.dumps({"job_type": job_type}).decode()


def created_body(job: NewJob, meta: str, actor: Actor) -> bytes | None:
    """The event's bytes; None where the statement makes them, with the digest of the input."""
    if INPUT_DIGEST in meta:
        return None
    return event_body("JOB_CREATED", actor.type, actor.id, "job", job.id, job.tenant_id, meta)


def is_audited(job: NewJob) -> bool:
    """True where the event carries a digest of the input: the statement for many makes it, and the event's bytes."""
    if job.audit_content or job.definition_id is not None or job.job_type in ALWAYS_AUDITED:
        return True
    registered_type = registered().get(job.job_type)
    return registered_type is not None and registered_type.audit_content


def known_retries(job_type: str) -> int | None:
    """The retries of a type where this process has its handler; None: the statement looks them up."""
    registered_type = registered().get(job_type)
    return None if registered_type is None else registered_type.max_retries


def known_limits(job_type: str) -> str | None:
    """How a type's jobs are limited where this process has its handler; None: the statement looks it up."""
    registered_type = registered().get(job_type)
    return None if registered_type is None or registered_type.is_command else registered_type.limit_by
