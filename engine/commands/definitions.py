"""Command definitions: the allow-list of programs that jobs may run. Only operators write it.

A definition's key is the job type of its jobs. The statements that write a definition also write the job type's limit,
retries and schema.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from atlas.actors import Actor
from atlas.audit import Event, record
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.engine.commands.spec import DefinitionSpec, Limits, read_spec
from atlas.engine.etags import etag_of, require_match
from atlas.engine.quotas import require_room
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import as_id, new_id

ADD = statement("engine/commands/sql/add_definition.sql")
EDIT = statement("engine/commands/sql/edit_definition.sql")
DISABLE = statement("engine/commands/sql/disable_definition.sql")
FIND = statement("engine/commands/sql/find_definition.sql")
KEY = statement("engine/commands/sql/definition_key.sql")
HOLD = statement("engine/commands/sql/hold_definition.sql")
TERMS = statement("engine/commands/sql/definition_terms.sql")
LIST = statement("engine/commands/sql/list_definitions.sql")

_JSON = ("argv", "programs", "arg_schema", "retry_policy", "limits", "env")


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


async def add_definition(conn: Connection, described: Mapping[str, Any], *, actor: Actor) -> Definition:
    """Allow a program. A key that is taken, also by a handler's job type, is a Conflict."""
    spec = read_spec(described)
    async with conn.transaction():
        await require_room(conn, "definitions", None)
        try:
            row = await fetch_row(conn, ADD, id=new_id(), **_columns(spec))
        except asyncpg.UniqueViolationError:
            row = None  # A worker published the same job type at the same time.
        if row is None:
            raise Conflict(
                f"The key {spec.key} is taken, by a definition or by a job type that a handler serves.",
                remedy="Choose another key, or edit the definition that has it.",
            )
        definition = _definition(row)
        await record(conn, _event("DEFINITION_ADDED", definition, actor))
    return definition


async def edit_definition(
    conn: Connection,
    key: str,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    if_match: Collection[str] | None = None,
) -> Definition:
    """Change some fields of a definition. Every attempt that begins afterwards uses them, also of waiting jobs."""
    if "key" in changes and changes["key"] != key:
        raise InvalidInput("The definition", [FieldError("key", "cannot be changed: jobs are stored under it")])
    async with conn.transaction():
        held = await _held(conn, key, if_match)
        before = _definition(held).spec
        spec = read_spec(_merged(before, changes))
        changed = sorted(name for name in DefinitionSpec.model_fields if getattr(spec, name) != getattr(before, name))
        definition = _definition(await fetch_row(conn, EDIT, id=held["id"], **_columns(spec)))
        action = "DEFINITION_DISABLED" if before.is_active and not spec.is_active else "DEFINITION_EDITED"
        await record(conn, _event(action, definition, actor, changed=changed))
    return definition


async def disable_definition(
    conn: Connection, key: str, *, actor: Actor, if_match: Collection[str] | None = None
) -> Definition:
    """Stop making and starting its jobs. Running jobs go on; waiting ones wait until it is active again."""
    async with conn.transaction():
        held = await _held(conn, key, if_match)
        definition = _definition(await fetch_row(conn, DISABLE, id=held["id"]))
        action, changed = ("DEFINITION_DISABLED", ["is_active"]) if held["is_active"] else ("DEFINITION_EDITED", [])
        await record(conn, _event(action, definition, actor, changed=changed))
    return definition


async def definition_key(conn: Connection, key_or_id: str) -> str:
    """Return the key of the definition with this id; what is no such id is a key already."""
    id = as_id(key_or_id)
    found: str | None = None if id is None else await fetch_value(conn, KEY, id=id)
    return found or key_or_id


async def find_definition(conn: Queryable, key: str) -> Definition:
    """Return the definition of this key; raises NotFound where there is none."""
    row = await conn.fetchrow(FIND.sql, *FIND.bind({"key": key}))
    if row is None:
        raise _unknown(key)
    return _definition(row)


async def list_definitions(
    conn: Queryable, *, active_only: bool = False, after: str | None = None, limit: int | None = None
) -> list[Definition]:
    """All definitions by key, or so many of them after a key."""
    values = {"active_only": active_only, "after": after, "limit": limit}
    return [_definition(row) for row in await conn.fetch(LIST.sql, *LIST.bind(values))]


async def load_terms(conn: Queryable, key: str, tenant_id: UUID) -> tuple[Definition, str] | None:
    """Return the current definition and the tenant's slug, or None if the definition is not active."""
    row = await conn.fetchrow(TERMS.sql, *TERMS.bind({"key": key, "tenant_id": tenant_id}))
    return None if row is None else (_definition(row), row["tenant_slug"])


async def _held(conn: Connection, key: str, if_match: Collection[str] | None) -> Any:
    """The row of a definition, locked until the end of the transaction."""
    row = await fetch_row(conn, HOLD, key=key)
    if row is None:
        raise _unknown(key)
    require_match(_definition(row).etag, if_match, "definition", key)
    return row


def _merged(before: DefinitionSpec, changes: Mapping[str, Any]) -> dict[str, Any]:
    known = before.model_dump()
    if "max_attempts" in changes:
        del known["max_retries"]  # Both names mean the same.
    merged = {**known, **changes}
    if isinstance(limits := changes.get("limits"), Mapping):
        merged["limits"] = {**known["limits"], **limits}
    return merged


def _columns(spec: DefinitionSpec) -> dict[str, Any]:
    values = {**spec.model_dump(), "retry_policy": spec.policy.as_json()}
    return {name: orjson.dumps(value).decode() if name in _JSON else value for name, value in values.items()}


def _definition(row: Any) -> Definition:
    # It was checked when it was written. One that is invalid by now must not keep the others from being read.
    values = {name: orjson.loads(row[name]) if name in _JSON else row[name] for name in DefinitionSpec.model_fields}
    values["limits"] = Limits.model_construct(**values["limits"])
    return Definition(row["id"], DefinitionSpec.model_construct(**values), row["created_at"], row["updated_at"])


def _unknown(key: str) -> NotFound:
    return NotFound("definition", key, remedy="`atlas definition list` shows the definitions there are.")


def _event(action: str, definition: Definition, actor: Actor, **facts: Any) -> Event:
    """The event holds the names of the environment, not its values."""
    spec = definition.spec
    terms = spec.model_dump(
        include={"key", "argv", "programs", "timeout_seconds", "max_retries", "concurrency", "is_active"}
    )
    return Event(
        action=action,
        entity_type="definition",
        entity_id=str(definition.id),
        actor=actor,
        meta={**terms, "limits": spec.limits.model_dump(), "env": sorted(spec.env), **facts},
    )
