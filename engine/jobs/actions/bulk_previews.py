"""Previews of bulk actions: the jobs that an action by a filter or by ids would change, kept as a set.

Jobs come and go while someone reads "Retry 638 jobs?". The action names the set by its digest and changes the jobs in
it that are still as they were. Jobs that changed in between are counted as `already_changed`; jobs that match only now
are counted as arrived, and left alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from pydantic import TypeAdapter

from atlas.actors import Actor
from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.jobs.actions.retry import refused_by_policy
from atlas.engine.jobs.lists.find import read_jobs
from atlas.engine.jobs.lists.job_list import BY_END, JobFilter, list_ended, list_ids
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound, Refused
from atlas.models.jobs import BulkFilter, BulkVerb

STORE = statement("engine/jobs/actions/sql/store_bulk_preview.sql")
FIND = statement("engine/jobs/actions/sql/find_bulk_preview.sql")
REFUSED = statement("engine/jobs/actions/sql/refused_retries.sql")
ARRIVED = statement("engine/jobs/actions/sql/arrived_since_preview.sql")
FORGET = statement("engine/jobs/actions/sql/forget_bulk_previews.sql")
DROP_OLDEST = statement("engine/jobs/actions/sql/drop_oldest_previews.sql")
OF_CAUSE = statement("engine/jobs/actions/sql/dead_letters_of_cause.sql")

# The statuses that each can change.
APPLIES_TO: Mapping[BulkVerb, tuple[str, ...]] = {
    "retry": ("failed", "dead_letter", "canceled"),
    "cancel": ("queued", "waiting", "running"),
    "delete": ("queued", "waiting", "succeeded", "failed", "dead_letter", "canceled"),
    "discard": ("dead_letter",),
}
# Sets of a tenant, the newest: a set of 100,000 jobs has 1.6 MB.
MAX_KEPT = 50
# Jobs that are named by their ids.
MAX_IDS = 1000
# Jobs of a set: a larger one would take seconds to read.
MAX_PREVIEWED = 100_000
# Jobs that are compared with the filter, in pages: where it matches few, a preview ends after half a million.
PAGE_JOBS = 5_000
PAGE_EXAMINED = 20_000
MAX_PAGES = 25
# Jobs that arrived since are counted from a little before the preview: the transactions that were open then may have
# ended jobs that it did not see.
MAX_ARRIVED_EXAMINED = 1_000
OPEN_TRANSACTIONS = timedelta(minutes=1)

STORED_FILTER = TypeAdapter(JobFilter)
# In a stored filter and in the record of an action: the jobs were named by their ids.
BY_IDS = "by_ids"


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """The jobs that an action would change: how many, and the digest by which the action names them.

    `left_out` counts the jobs that match and would not be changed, by the reason. Of jobs that are named by their ids
    there is no filter, and a new preview says in `refused` which these are.
    """

    digest: str
    tenant_id: UUID | None
    action: BulkVerb
    filter: JobFilter | None
    count: int
    left_out: dict[str, int]
    complete: bool
    as_of: datetime
    refused: dict[UUID, str] = field(default_factory=dict)


async def preview_bulk_action(
    conn: Connection,
    action: BulkVerb,
    selected: JobFilter | Sequence[UUID],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    limit: int = MAX_PREVIEWED,
) -> BulkPreview:
    """Read the jobs that the action would change now, up to `limit`, and keep them for it. By a filter the newest.

    Of one cause of dead letters, these are the jobs that the meter has counted: `update_counts` brings it up to now.
    """
    job_filter: JobFilter | None = None
    refused: dict[UUID, str] = {}
    if isinstance(selected, JobFilter):
        job_filter = replace(narrowed(action, selected), tenant_id=tenant_id)
        ids, complete = await _matching(conn, job_filter)
        left_out = await _refused(conn, ids, tenant_id, by_ids=False) if action == "retry" else {}
        filter = stored_filter(job_filter)
    else:
        ids, complete = distinct_ids(selected), True
        left_out = refused = await _refused_of_ids(conn, action, ids, tenant_id)
        # A program of the release before follows it as one by a filter: it must find the statuses.
        filter = {"statuses": APPLIES_TO[action], BY_IDS: True}
    changeable = [id for id in ids if id not in left_out]
    kept, complete = changeable[:limit], complete and len(changeable) <= limit
    counts = dict(Counter(left_out.values()))
    reasons = orjson.dumps(counts).decode()
    row = await fetch_row(
        conn,
        STORE,
        tenant_id=tenant_id,
        action=action,
        filter=orjson.dumps(filter).decode(),
        ids=kept,
        left_out=reasons,
        complete=complete,
        created_by=actor.id,
    )
    assert row is not None
    await fetch(conn, DROP_OLDEST, tenant_id=tenant_id, kept=MAX_KEPT)
    facts = {"count": len(kept), "left_out": counts, "complete": complete, "as_of": row["as_of"], "refused": refused}
    return BulkPreview(row["digest"], tenant_id, action, job_filter, **facts)


async def find_preview(
    conn: Connection, digest: str, *, action: BulkVerb, tenant_id: UUID | None = None
) -> BulkPreview:
    """The preview with this digest; NotFound if there is none, Conflict if it is of another action."""
    row = await fetch_row(conn, FIND, digest=digest, tenant_id=tenant_id)
    if row is None:
        raise NotFound("preview", digest, remedy="A tenant's newest 50 are kept for a day. Preview the action again.")
    if row["action"] != action:
        raise Conflict(
            f"The preview is of the action {row['action']}, not of {action}.", remedy=f"Preview the action {action}."
        )
    values = {name: row[name] for name in ("digest", "tenant_id", "action", "count", "complete", "as_of")}
    stored = orjson.loads(row["filter"])
    is_of_ids = stored.pop(BY_IDS, False)
    job_filter = None if is_of_ids else replace(STORED_FILTER.validate_python(stored), tenant_id=row["tenant_id"])
    return BulkPreview(**values, left_out=orjson.loads(row["left_out"]), filter=job_filter)


async def count_arrived(conn: Connection, preview: BulkPreview) -> int | None:
    """How many jobs match now that did not when the set was read; no more than a page of them are counted.

    None for jobs that are named by their ids.
    """
    if preview.filter is None:
        return None
    since = preview.as_of - OPEN_TRANSACTIONS
    job_filter = preview.filter
    bounds: dict[str, Any] = {"limit": MAX_PAGE_SIZE, "max_examined": MAX_ARRIVED_EXAMINED}
    if set(job_filter.statuses or ()) <= set(BY_END):
        job_filter = replace(job_filter, finished_after=max(filter(None, (job_filter.finished_after, since))))
        ids = [job.id for job in (await list_ended(conn, job_filter, **bounds, whole=False)).jobs]
    else:
        job_filter = replace(job_filter, created_after=max(filter(None, (job_filter.created_after, since))))
        ids = (await list_ids(conn, job_filter, before=None, **bounds)).ids
    arrived: int = await fetch_value(conn, ARRIVED, digest=preview.digest, ids=ids)
    return arrived


async def forget_bulk_previews(conn: Connection) -> None:
    """Remove sets that nobody will act on any more."""
    await fetch(conn, FORGET)


def narrowed(action: BulkVerb, job_filter: JobFilter) -> JobFilter:
    """The filter of what the action can change; refuses one that is empty, or that matches nothing of that."""
    if job_filter == JobFilter(job_filter.tenant_id):
        raise Refused("The filter is empty: every job would match.", remedy="Name a status, a type or another value.")
    statuses = APPLIES_TO[action] if job_filter.statuses is None else job_filter.statuses
    fit = tuple(status for status in statuses if status in APPLIES_TO[action])
    if not fit:
        possible = ", ".join(APPLIES_TO[action])
        raise Refused(
            f"No job that passes the filter can be changed by {action}.", remedy=f"It applies to: {possible}."
        )
    return replace(job_filter, statuses=fit)


def distinct_ids(ids: Sequence[UUID]) -> list[UUID]:
    """The ids without those that are named twice; refuses none, and too many."""
    chosen = list(dict.fromkeys(ids))
    if not 1 <= len(chosen) <= MAX_IDS:
        raise InvalidInput("The action", [FieldError("ids", f"must be 1 to {MAX_IDS:,} ids")])
    return chosen


def stored_filter(job_filter: JobFilter) -> dict[str, Any]:
    """A filter as a record keeps it."""
    values = {name: value for name, value in asdict(job_filter).items() if value is not None and name != "tenant_id"}
    found: dict[str, Any] = orjson.loads(orjson.dumps(values, default=str))
    return found


def bulk_filter(filter: JobFilter) -> BulkFilter:
    """A filter as an action or a preview names it."""
    return BulkFilter.model_validate({**asdict(filter), "status": filter.statuses})


async def _matching(conn: Connection, job_filter: JobFilter) -> tuple[list[UUID], bool]:
    """The newest jobs that match, and whether these are all."""
    if is_cause(job_filter):
        return await _of_cause(conn, job_filter)
    ids: list[UUID] = []
    before: UUID | None = None
    for _ in range(MAX_PAGES):
        limit = min(PAGE_JOBS, MAX_PREVIEWED - len(ids))
        page = await list_ids(conn, job_filter, before=before, limit=limit, max_examined=PAGE_EXAMINED)
        ids += page.ids
        before = page.next_before
        if before is None or len(ids) == MAX_PREVIEWED:
            break
    return ids, before is None


def is_cause(job_filter: JobFilter) -> bool:
    """Whether the filter is of one cause of dead letters, and of nothing else: the meter keeps which jobs have it."""
    cause = JobFilter(
        job_filter.tenant_id,
        statuses=("dead_letter",),
        job_type=job_filter.job_type,
        error_type=job_filter.error_type,
        error_pattern=job_filter.error_pattern,
    )
    return job_filter == cause and None not in (job_filter.job_type, job_filter.error_type, job_filter.error_pattern)


async def _of_cause(conn: Connection, job_filter: JobFilter) -> tuple[list[UUID], bool]:
    """The newest dead letters of a cause, and whether these are all. Reads no others."""
    rows = await fetch(
        conn,
        OF_CAUSE,
        tenant_id=job_filter.tenant_id,
        job_type=job_filter.job_type,
        error_type=job_filter.error_type,
        error_pattern=job_filter.error_pattern,
        limit=MAX_PREVIEWED + 1,
    )
    ids = [row["id"] for row in rows]
    return ids[:MAX_PREVIEWED], len(ids) <= MAX_PREVIEWED


async def _refused_of_ids(
    conn: Connection, action: BulkVerb, ids: list[UUID], tenant_id: UUID | None
) -> dict[UUID, str]:
    """The jobs among these that the action would leave as they are, with the verdict that it would have for each."""
    statuses = {job.id: job.shown_status for job in await read_jobs(conn, ids, tenant_id=tenant_id, whole=False)}
    refused = {id: "missing" for id in ids if id not in statuses}
    for id, status in statuses.items():
        if status not in APPLIES_TO[action]:
            refused[id] = "ended" if action == "cancel" else status
    if action == "retry":
        refused |= await _refused(conn, [id for id in statuses if id not in refused], tenant_id, by_ids=True)
    return refused


async def _refused(conn: Connection, ids: list[UUID], tenant_id: UUID | None, *, by_ids: bool) -> dict[UUID, str]:
    """The jobs that a retry would leave as they are, with the verdict that it would have for each."""
    refused = {row["id"]: row["verdict"] for row in await fetch(conn, REFUSED, ids=ids, by_ids=by_ids)}
    return {**refused, **await refused_by_policy(conn, ids, tenant_id)}
