"""Starts runs: an ENGINE_RUN job and the run it carries, under one id, in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from atlas.actors import system
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.admission import ENGINE_RUN as ENGINE_RUN
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.workflows.review import DocumentVersion
from atlas.ids import new_id

RESOLVE = statement("engine/workflows/sql/resolve_workflows.sql")
INSERT_RUNS = statement("engine/workflows/sql/insert_runs.sql")

ENGINE = system("engine")


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be started."""

    tenant_id: UUID
    workflow: str
    input: Mapping[str, Any]
    requested_by: str
    priority: int = 0
    source: str = "workflow"
    source_ref: str | None = None
    correlation_id: str | None = None
    parent_run_id: UUID | None = None
    forked_from: UUID | None = None
    # Events after this number may end its waits; None: those from now on.
    events_from: int | None = None
    # How many runs are above it, each waiting for the next.
    depth: int = 0
    # What it runs, where that was reviewed; None: the newest document of its workflow.
    document: DocumentVersion | None = None
    id: UUID = field(default_factory=new_id)


@dataclass(frozen=True, slots=True)
class RunInput:
    """What the job of a run carries, so that a worker needs no other read to begin."""

    workflow: str
    input: dict[str, Any]
    requested_by: str
    document_id: UUID | None
    forked: bool
    depth: int = 0


async def start_runs(conn: Connection, runs: Sequence[NewRun]) -> None:
    """Enqueue the runs in the caller's transaction. Declared workflows keep the version they begin with."""
    newest = await resolve(conn, [(run.tenant_id, run.workflow) for run in runs if run.document is None])
    documents = [run.document or newest.get((run.tenant_id, run.workflow), DocumentVersion()) for run in runs]
    jobs = [_job(run, document.id) for run, document in zip(runs, documents, strict=True)]
    await enqueue_many(conn, jobs, actor=ENGINE)
    await fetch(
        conn,
        INSERT_RUNS,
        ids=[run.id for run in runs],
        tenants=[run.tenant_id for run in runs],
        workflows=[run.workflow for run in runs],
        versions=[document.version for document in documents],
        workflow_ids=[document.id for document in documents],
        requesters=[run.requested_by for run in runs],
        parents=[run.parent_run_id for run in runs],
        forked=[run.forked_from for run in runs],
        events_from=[run.events_from for run in runs],
    )


async def resolve(conn: Connection, starts: Iterable[tuple[UUID, str]]) -> dict[tuple[UUID, str], DocumentVersion]:
    """The newest document behind each tenant's key; workflows in code have none."""
    pairs = sorted(set(starts), key=str)
    if not pairs:
        return {}
    rows = await fetch(conn, RESOLVE, tenants=[tenant for tenant, _ in pairs], keys=[key for _, key in pairs])
    return {(row["tenant_id"], row["key"]): DocumentVersion(row["id"], row["version"]) for row in rows}


def read_input(value: Any) -> RunInput:
    """A run's own facts from its job's input. An ENGINE_RUN job that was not made from an intent is refused."""
    if not isinstance(value, dict) or not isinstance(value.get("requestedBy"), str):
        raise PermanentError(
            "This ENGINE_RUN job was not made from an intent.",
            remedy="Ask for workflows with request_workflow, `atlas workflow run` or the API.",
        )
    document = value.get("documentId")
    return RunInput(
        str(value["workflow"]),
        value.get("input") or {},
        value["requestedBy"],
        None if document is None else UUID(document),
        "forkedFrom" in value,
        int(value.get("depth", 0)),
    )


def _job(run: NewRun, document_id: UUID | None) -> NewJob:
    carried: dict[str, Any] = {"workflow": run.workflow, "input": dict(run.input), "requestedBy": run.requested_by}
    if document_id is not None:
        carried["documentId"] = str(document_id)
    if run.forked_from is not None:
        carried["forkedFrom"] = str(run.forked_from)
    if run.depth:
        carried["depth"] = run.depth
    return NewJob(
        ENGINE_RUN,
        carried,
        run.tenant_id,
        priority=run.priority,
        correlation_id=run.correlation_id,
        source=run.source,
        source_ref=run.source_ref,
        parent_run_id=run.parent_run_id,
        id=run.id,
    )
