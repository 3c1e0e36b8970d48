"""Declared workflows in the database: saving makes a new version, and a run keeps the one it began with."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import orjson

from atlas.actors import Actor
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.etags import Precondition, require_match
from atlas.engine.helper_process import Run, run_here
from atlas.engine.jobs.handlers.type_catalog import kept_secrets
from atlas.engine.workflows.declared.check import parse_document
from atlas.engine.workflows.declared.document import Document, UndoStep
from atlas.engine.workflows.errors import WorkflowFailed
from atlas.engine.workflows.find_workflows import list_workflows
from atlas.engine.workflows.registry import near
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.etags import etag_of
from atlas.models.rows import from_row
from atlas.models.workflows import Workflow

if TYPE_CHECKING:
    from atlas.generated import models

HOLD = statement("engine/workflows/declared/sql/hold_workflow.sql")
SAVE = statement("engine/workflows/declared/sql/save_workflow.sql")
LATEST = statement("engine/workflows/declared/sql/latest_workflow.sql")
LOAD = statement("engine/workflows/declared/sql/load_document.sql")

_MAX_KEPT = 500
# By version, which never changes: one read is enough for all its runs.
_documents: dict[UUID, tuple[UUID | None, Document]] = {}


@dataclass(frozen=True, slots=True)
class Saved:
    """The version that holds a document; `is_new` is False if the newest one held it already."""

    id: UUID
    key: str
    version: int
    is_new: bool
    etag: str
    updated_at: datetime


async def save_workflow(
    conn: Connection,
    document: Mapping[str, Any],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Precondition | None = None,
    expected_version: int | None = None,
    restored_from: int | None = None,
    run: Run = run_here,
) -> Saved:
    """Save a document as the newest version of its key, for one tenant or all. The same one again changes nothing.

    With `expected_version`, Conflict if another version is the newest by then; 0 expects none. Checking it takes up to
    half a second; `run` may do it elsewhere.
    """
    parsed: Document = await run(parse_document, document)
    text = orjson.dumps(document).decode()
    async with conn.transaction():
        await _refuse_secrets(conn, parsed)
        await _require_match(conn, parsed.key, tenant_id, if_match)
        latest = await fetch_row(conn, LATEST, key=parsed.key, tenant_id=tenant_id, document=text)
        if latest is not None and latest["is_same"]:
            return _saved(parsed.key, latest, is_new=False)
        if latest is None:
            await require_room(conn, "workflows", tenant_id)
        else:
            await require_room(conn, "versions_of_a_workflow", tenant_id, of=parsed.key)
        values = await values_of(conn, "workflow", parsed.key, tenant_id)
        row = await fetch_row(
            conn,
            SAVE,
            tenant_id=tenant_id,
            key=parsed.key,
            description=parsed.description,
            input_schema=orjson.dumps(parsed.input_schema).decode(),
            document=text,
            created_by=actor.id,
            expected=expected_version,
        )
        if row is None:
            raise await _overtaken(conn, parsed.key, tenant_id, expected_version)
        action, meta = "WORKFLOW_SAVED", {"version": row["version"]}
        if restored_from is not None:
            action, meta["restored_from"] = "WORKFLOW_ROLLED_BACK", restored_from
        await record(conn, _event(action, parsed.key, actor, tenant_id, meta), before=values or None)
    return _saved(parsed.key, row, is_new=True)


def _saved(key: str, row: asyncpg.Record, *, is_new: bool) -> Saved:
    etag = etag_of(row["id"], row["is_enabled"])
    return Saved(row["id"], key, row["version"], is_new=is_new, etag=etag, updated_at=row["updated_at"])


async def _overtaken(conn: Connection, key: str, tenant_id: UUID | None, expected: int | None) -> Conflict:
    newest = await _newest(conn, key, tenant_id)
    if newest is None or newest.version == expected or expected is None:
        return Conflict(f"The workflow {key} was saved by another request at the same time.", remedy="Save it again.")
    return Conflict(
        f"The workflow {key} is at version {newest.version}, by {newest.createdBy}, and not at version {expected}.",
        remedy=f"Compare that version with yours, and save with version {newest.version} as the expected one.",
    )


async def _require_match(conn: Connection, key: str, tenant_id: UUID | None, if_match: Precondition | None) -> None:
    """Hold a workflow until the end of the transaction, and raise Stale if it is not in one of these states."""
    if if_match is not None:
        await fetch(conn, HOLD, key=key, tenant_id=tenant_id)
        newest = await _newest(conn, key, tenant_id)
        require_match(None if newest is None else from_row(Workflow, newest), if_match, "workflow", key)


async def _newest(conn: Connection, key: str, tenant_id: UUID | None) -> "models.Workflow | None":
    """The newest version of a workflow, declared or code's, of a tenant or of everyone."""
    owner = None if tenant_id is None else str(tenant_id)
    return await prisma_on(conn).workflow.find_first(where={"key": key, "tenantId": owner}, order={"version": "desc"})


async def _refuse_secrets(conn: Connection, document: Document) -> None:
    wrong: list[FieldError] = []
    for number, step in enumerate(document.steps):
        asked = [(step.job, step.with_, f"steps[{number}].with")]
        if isinstance(step.on_failure, UndoStep):
            asked.append((step.on_failure.job, step.on_failure.with_, f"steps[{number}].onFailure.with"))
        for job_type, template, path in asked:
            if job_type is not None:
                wrong += await kept_secrets(conn, job_type, template, path=path)
    if wrong:
        raise InvalidInput("The workflow", wrong)


async def enable_workflow(
    conn: Connection,
    key: str,
    *,
    enabled: bool,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Precondition | None = None,
) -> Workflow:
    """Let a workflow start, or not, in all its versions. What runs goes on."""
    async with conn.transaction():
        await _require_match(conn, key, tenant_id, if_match)
        newest = await _newest(conn, key, tenant_id)
        if newest is None:
            raise NotFound("workflow", key, remedy=await _similar(conn, key, tenant_id))
        values = await values_of(conn, "workflow", key, tenant_id)
        await prisma_on(conn).workflow.update_many({"isEnabled": enabled}, {"key": key, "tenantId": newest.tenantId})
        action = "WORKFLOW_ENABLED" if enabled else "WORKFLOW_DISABLED"
        await record(conn, _event(action, key, actor, tenant_id, {}), before=values)
        changed = await _newest(conn, key, tenant_id)
        assert changed is not None
    return from_row(Workflow, changed)


async def _similar(conn: Connection, key: str, tenant_id: UUID | None) -> str:
    """A remedy for a wrong key: the keys that are most like it."""
    similar = near(key, [workflow.key for workflow in await list_workflows(conn, tenant_id=tenant_id)])
    return f"Similar: {', '.join(similar)}." if similar else "`atlas workflow list --workflows` shows them."


def known_document(document_id: UUID, tenant_id: UUID) -> Document | None:
    """The document a run of this tenant keeps, if this process has read it before."""
    owner, document = _documents.get(document_id, (None, None))
    return document if owner in (None, tenant_id) else None


async def load_document(conn: Connection, document_id: UUID, tenant_id: UUID) -> Document:
    """The document a run of this tenant keeps."""
    row = await fetch_row(conn, LOAD, id=document_id, tenant_id=tenant_id)
    if row is None:
        raise WorkflowFailed(
            f"The workflow version {document_id} is gone.", {}, remedy="Save the workflow and run it anew."
        )
    if len(_documents) >= _MAX_KEPT:
        _documents.clear()
    document = Document.model_validate_json(row["document"])
    _documents[document_id] = (row["tenant_id"], document)
    return document


def _event(action: str, key: str, actor: Actor, tenant_id: UUID | None, meta: dict[str, Any]) -> Event:
    return Event(action=action, entity_type="workflow", entity_id=key, actor=actor, tenant_id=tenant_id, meta=meta)
