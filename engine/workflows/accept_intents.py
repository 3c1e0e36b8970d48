"""Accepts intents, which become runs, or rejects them with a reason."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.policy.judge import load_policy
from atlas.engine.workflows.forks import Source, copy_steps, hold_sources
from atlas.engine.workflows.review import DocumentVersion, Subject, document_of
from atlas.engine.workflows.start_runs import NewRun, start_runs
from atlas.errors import Conflict

LOAD = statement("engine/workflows/sql/load_intents.sql")
HOLD = statement("engine/workflows/sql/hold_intent.sql")
SETTLE = statement("engine/workflows/sql/settle_intents.sql")


async def load_intents(conn: Connection, ids: Sequence[UUID], *, status: str) -> list[Any]:
    """The intents of this status among `ids`, held until the transaction ends."""
    return await fetch(conn, LOAD, ids=list(ids), status=status)


async def accept_intent(conn: Connection, intent_id: UUID, subject: Subject | None) -> None:
    """awaiting_human → queued, with its job and its run: a person approved it. What policy forbids is a Conflict.

    The run has the document of the subject that was reviewed, also if another is saved at this moment.
    """
    row = await fetch_row(conn, HOLD, id=intent_id)
    if row is not None:
        policy = await load_policy(conn, [(row["tenant_id"], row["workflow"])])
        verdict = policy.judge(row["tenant_id"], row["workflow"], row["spend_cents"])
        if verdict.effect == "block":
            raise Conflict(verdict.reason, remedy="Reject the request, or change what forbids it.")
        await accept(conn, [row], document=None if subject is None else document_of(subject))
        await settle(conn, [(intent_id, "queued", None, None)])


async def reject_intent(conn: Connection, intent_id: UUID, reason: str) -> None:
    """awaiting_human → rejected."""
    await settle(conn, [(intent_id, "rejected", reason, None)])


async def accept(conn: Connection, intents: Sequence[Any], *, document: DocumentVersion | None = None) -> None:
    """The job and the run of each of these intents. Conflict: what a fork among them would reuse is not there.

    Without a document each run begins with the newest one of its workflow.
    """
    forks = {row["id"]: Source(row["forked_from"], row["forked_step"]) for row in intents if row["forked_from"]}
    if forks:
        await hold_sources(conn, forks.values())
    await start_runs(conn, [_run(row, document) for row in intents])
    for fork_id, source in forks.items():
        await copy_steps(conn, source, fork_id)


async def settle(conn: Connection, verdicts: Sequence[tuple[UUID, str, str | None, dict[str, Any] | None]]) -> None:
    """Write what became of intents: (id, status, reason, decision)."""
    await fetch(
        conn,
        SETTLE,
        ids=[id for id, *_ in verdicts],
        statuses=[status for _, status, _, _ in verdicts],
        reasons=[reason for _, _, reason, _ in verdicts],
        decisions=[None if decision is None else orjson.dumps(decision).decode() for *_, decision in verdicts],
    )


def _run(row: Any, document: DocumentVersion | None) -> NewRun:
    return NewRun(
        row["tenant_id"],
        row["workflow"],
        orjson.loads(row["input"]),
        row["requested_by"],
        priority=row["priority"],
        source=row["source"],
        source_ref=row["source_ref"],
        correlation_id=row["correlation_id"],
        forked_from=row["forked_from"],
        events_from=row["events_from"],
        document=document,
        id=row["id"],
    )
