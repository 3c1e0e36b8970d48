"""Command definitions: the allow-list of programs that jobs may run. Only operators write it.

A definition's key is the job type of its jobs. The transaction that writes a definition also writes the job type's
limit, retries and schema. Workers read definitions by `active_definitions.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import as_json, data_of, page_filter, prisma_on
from atlas.db.statements import fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.commands.spec import DefinitionSpec, Limits, read_spec
from atlas.engine.etags import Precondition, require_match
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.etags import etag_of
from atlas.ids import as_id, new_id
from atlas.models.rows import prisma_name

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import JobDefinitionUpdateInput, JobDefinitionWhereInput

HOLD = statement("engine/commands/sql/hold_definition.sql")

JSON_COLUMNS = {"argv", "programs", "arg_schema", "retry_policy", "limits", "env"}
# What a definition and its job type both say.
_OF_TYPES = (
    *("key", "description", "timeoutSeconds", "maxRetries", "retryPolicy"),
    *("concurrency", "concurrencyKey", "rate", "burst"),
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition as it is stored."""

    id: UUID
    spec: DefinitionSpec
    created_at: datetime
    updated_at: datetime

    @property
    def etag(self) -> str:
        """The tag of what an edit can change."""
        return etag_of(self.id, self.spec.model_dump())

    def as_json(self) -> dict[str, Any]:
        """The definition as the API and the CLI show it."""
        times = {"created_at": self.created_at, "updated_at": self.updated_at}
        return {"id": str(self.id), **self.spec.model_dump(), **times}


async def add_definition(
    conn: Connection, described: Mapping[str, Any], *, actor: Actor, program: str | None = None
) -> Definition:
    """Allow a program. A key that is taken, also by a handler's job type, is a Conflict.

    `program` is run by a definition that has no `argv`: ATLAS_COMMAND_PROGRAM.
    """
    spec = read_spec(described, program=program)
    async with conn.transaction():
        await require_room(conn, "definitions", None)
        prisma = prisma_on(conn)
        try:
            await prisma.jobtype.create(_job_type(spec))
            row = await prisma.jobdefinition.create(_columns(spec, id=new_id()))
        except asyncpg.UniqueViolationError:
            raise Conflict(
                f"The key {spec.key} is taken, by a definition or by a job type that a handler serves.",
                remedy="Choose another key, or edit the definition that has it.",
            ) from None
        definition = _definition(row)
        await record(conn, _event("DEFINITION_ADDED", definition, actor))
    return definition


async def edit_definition(
    conn: Connection,
    key: str,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    if_match: Precondition | None = None,
) -> Definition:
    """Change some fields of a definition. Every attempt that begins afterwards uses them, also of waiting jobs."""
    if "key" in changes and changes["key"] != key:
        raise InvalidInput("The definition", [FieldError("key", "cannot be changed: jobs are stored under it")])
    async with conn.transaction():
        held = await _held(conn, key, if_match)
        before, values = held.spec, await values_of(conn, "definition", held.id)
        spec = read_spec(_merged(before, changes))
        changed = sorted(name for name in DefinitionSpec.model_fields if getattr(spec, name) != getattr(before, name))
        definition = await _write(conn, held, _columns(spec))
        job_type = _job_type(spec)
        await prisma_on(conn).jobtype.upsert({"key": key}, {"create": job_type, "update": job_type})
        action = "DEFINITION_DISABLED" if before.is_active and not spec.is_active else "DEFINITION_EDITED"
        await record(conn, _event(action, definition, actor, changed=changed), before=values)
    return definition


async def disable_definition(
    conn: Connection, key: str, *, actor: Actor, if_match: Precondition | None = None
) -> Definition:
    """Stop making and starting its jobs. Running jobs go on; waiting ones wait until it is active again."""
    async with conn.transaction():
        held = await _held(conn, key, if_match)
        # Nothing else is written or checked: what an earlier version accepted, and this one would not, can be disabled.
        definition = await _write(conn, held, {"isActive": False})
        action, changed = ("DEFINITION_DISABLED", ["is_active"]) if held.spec.is_active else ("DEFINITION_EDITED", [])
        event = _event(action, definition, actor, changed=changed)
        await record(conn, event, before={"is_active": held.spec.is_active})
    return definition


async def definition_key(conn: Connection, key_or_id: str) -> str:
    """Return the key of the definition with this id; what is no such id is a key already."""
    id = as_id(key_or_id)
    definition = None if id is None else await prisma_on(conn).jobdefinition.find_unique({"id": str(id)})
    return key_or_id if definition is None else definition.key


async def find_definition(conn: Connection, key: str) -> Definition:
    """Return the definition of this key; raises NotFound where there is none."""
    row = await prisma_on(conn).jobdefinition.find_unique({"key": key})
    if row is None:
        raise _unknown(key)
    return _definition(row)


async def list_definitions(
    conn: Connection, *, active_only: bool = False, after: str | None = None, limit: int | None = None
) -> list[Definition]:
    """The definitions by key; with `limit`, one page of them."""
    newer = None if after is None else {"gt": after}
    where: JobDefinitionWhereInput = page_filter(tenant_id=None, is_active=active_only or None, key=newer)
    rows = await prisma_on(conn).jobdefinition.find_many(limit, where=where, order={"key": "asc"})
    return [_definition(row) for row in rows]


def definition_of(id: UUID, values: Mapping[str, Any], created_at: datetime, updated_at: datetime) -> Definition:
    """The definition of these stored values.

    They were checked when they were written. One that is invalid by now must not keep the others from being read.
    """
    limits = Limits.model_construct(**values["limits"])
    return Definition(id, DefinitionSpec.model_construct(**{**values, "limits": limits}), created_at, updated_at)


async def _held(conn: Connection, key: str, if_match: Precondition | None) -> Definition:
    """A definition, locked until the end of the transaction."""
    await fetch_value(conn, HOLD, key=key)
    held = await find_definition(conn, key)
    require_match(held, if_match, "definition", key)
    return held


async def _write(conn: Connection, held: Definition, data: "JobDefinitionUpdateInput") -> Definition:
    row = await prisma_on(conn).jobdefinition.update(data, {"id": str(held.id)})
    assert row is not None
    return _definition(row)


def _merged(before: DefinitionSpec, changes: Mapping[str, Any]) -> dict[str, Any]:
    document = before.model_dump()
    if "max_attempts" in changes:
        del document["max_retries"]  # Both names mean the same.
    merged = {**document, **changes}
    if isinstance(limits := changes.get("limits"), Mapping):
        merged["limits"] = {**document["limits"], **limits}
    return merged


def _columns(spec: DefinitionSpec, **more: Any) -> Any:
    columns = {name: as_json(value) if name in JSON_COLUMNS else value for name, value in spec.model_dump().items()}
    return data_of(**columns | {"retry_policy": as_json(spec.policy.as_json())}, **more)


def _job_type(spec: DefinitionSpec) -> Any:
    columns = _columns(spec)
    return {"inputSchema": columns["argSchema"], **{name: columns[name] for name in _OF_TYPES}}


def _definition(row: "models.JobDefinition") -> Definition:
    values = {name: getattr(row, prisma_name(name)) for name in DefinitionSpec.model_fields}
    return definition_of(UUID(row.id), values, row.createdAt, row.updatedAt)


def _unknown(key: str) -> NotFound:
    return NotFound("definition", key, remedy="`atlas definition list` lists the definitions.")


def _event(action: str, definition: Definition, actor: Actor, **facts: Any) -> Event:
    """The event holds the names of the environment, not its values."""
    spec = definition.spec
    options = spec.model_dump(
        include={"key", "argv", "programs", "timeout_seconds", "max_retries", "concurrency", "is_active"}
    ) | spec.model_dump(include={"concurrency_key", "rate", "burst"}, exclude_none=True)
    return Event(
        action=action,
        entity_type="definition",
        entity_id=str(definition.id),
        actor=actor,
        meta={**options, "limits": spec.limits.model_dump(), "env": sorted(spec.env), **facts},
    )
