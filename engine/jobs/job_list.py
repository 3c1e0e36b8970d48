"""Lists of jobs, page by page: newest first, or in the order of their ends."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.bounds import LARGEST_PAGE
from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.engine.id_prefixes import prefix_bounds
from atlas.engine.jobs.find import JobRow, read_jobs
from atlas.engine.synonyms import own_statuses
from atlas.errors import FieldError, InvalidInput
from atlas.ids import first_id

LIST = statement("engine/jobs/sql/list.sql")
# For the transaction of a list. Planning the statement takes longer than running it, and behind row-level security
# Postgres would do it for every call. A plan for all values does not know how short a page is: without an index's
# order it would sort every job there is.
ONE_PLAN = (
    "set local plan_cache_mode = force_generic_plan; "
    "set local enable_sort = off; set local enable_incremental_sort = off"
)
LIST_ENDED = statement("engine/jobs/sql/list_ended.sql")

# No clock of a machine that enqueues is so fast.
CLOCKS_APART = timedelta(days=1)
STATUSES = ("queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled")
# Those that may have an error; and those that are listed by their ends.
WITH_ERRORS = ("failed", "dead_letter", "canceled", "waiting", "running")
BY_END = ("failed", "dead_letter", "canceled")
LAST_ID = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list: every field that is set must match."""

    tenant_id: UUID | None = None
    # One of them, under any of its names.
    statuses: tuple[str, ...] | None = None
    job_type: str | None = None
    source: str | None = None
    correlation_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    # The worker or host that runs it, or ran it last.
    worker_id: str | None = None
    host_id: UUID | None = None
    parent_run_id: UUID | None = None
    error_type: str | None = None
    # A part of the error's message, in any case.
    error_text: str | None = None
    # The message as `error_pattern` in SQL makes it alike for many jobs.
    error_pattern: str | None = None
    # The first hexadecimal digits of the id.
    id_prefix: str | None = None
    group_id: UUID | None = None

    def __post_init__(self) -> None:
        if self.statuses is not None:
            object.__setattr__(self, "statuses", own_statuses(self.statuses))

    @property
    def compares_jobs(self) -> bool:
        """True where jobs must be read and compared: no index has what is asked for."""
        asked = (
            *(self.job_type, self.source, self.created_after, self.created_before, self.finished_after),
            *(self.finished_before, self.worker_id, self.host_id, *self._of_errors),
        )
        narrowed = self.correlation_id is not None and (self.statuses is not None or self.parent_run_id is not None)
        return narrowed or any(value is not None for value in asked)

    @property
    def chosen_statuses(self) -> tuple[str, ...] | None:
        """The statuses to read. Where none is named, an error is looked for where one is shown."""
        if self.statuses is None and any(value is not None for value in self._of_errors):
            return WITH_ERRORS
        return self.statuses

    @property
    def bounds(self) -> tuple[UUID | None, UUID | None]:
        """The lowest and the highest id with the prefix."""
        if self.id_prefix is None:
            return None, None
        return prefix_bounds(self.id_prefix)

    @property
    def arms(self) -> list[str]:
        """The parts of the statement that read what is asked for."""
        if self.group_id is not None:
            return ["group"]
        if self.correlation_id is not None:
            return ["correlation"]
        if self.parent_run_id is not None:
            return ["children"]
        if self.chosen_statuses is None:
            return ["key"] if self.tenant_id is None else ["ended", "running", "queued"]
        succeeded = "key" if self.tenant_id is None else "ended"
        found = {_ARMS.get(status, succeeded) for status in self.chosen_statuses}
        # What is queued holds what waits.
        return sorted(found - {"waiting"} if "queued" in found else found)

    @property
    def _of_errors(self) -> tuple[str | None, ...]:
        return self.error_type, self.error_text, self.error_pattern


_ARMS = {
    **{status: status for status in ("queued", "waiting", "running", "failed", "dead_letter")},
    "canceled": "failed",
}


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, and what the next page is `before`: None after the last."""

    jobs: list[JobRow]
    next_before: UUID | None


@dataclass(frozen=True, slots=True)
class EndedPage:
    """Some jobs in the order of their ends, and what the next page is `before`: None after the last."""

    jobs: list[JobRow]
    next_before: tuple[datetime, UUID] | None


async def list_jobs(
    conn: Queryable,
    wanted: JobFilter | None = None,
    *,
    before: UUID | None = None,
    limit: int = 50,
    offset: int = 0,
) -> list[JobRow]:
    """Newest first, after the job `before` of the page before: stable while new jobs arrive, unlike an `offset`."""
    return (await list_page(conn, wanted, before=before, limit=limit, offset=offset)).jobs


async def list_page(
    conn: Queryable,
    wanted: JobFilter | None = None,
    *,
    before: UUID | None = None,
    limit: int = 50,
    offset: int = 0,
    most_bytes: int | None = None,
    most_read: int | None = None,
    whole: bool = True,
) -> JobPage:
    """The same, as a page that ends early: after the job with which its inputs and outputs reach `most_bytes`, or after
    `most_read` jobs of a status were compared with what no index serves. It may then be empty, and not the last.

    Without `whole` the jobs have no inputs and outputs, and of their errors the beginning.
    """
    chosen = wanted or JobFilter()
    ids, next_before = await list_ids(
        conn,
        chosen,
        before=before,
        limit=min(limit, LARGEST_PAGE),
        offset=offset,
        most_bytes=most_bytes if whole else None,
        most_read=most_read,
    )
    return JobPage(await _read(conn, ids, chosen, whole=whole), next_before)


async def list_ids(
    conn: Queryable,
    wanted: JobFilter,
    *,
    before: UUID | None,
    limit: int,
    offset: int = 0,
    most_bytes: int | None = None,
    most_read: int | None = None,
) -> tuple[list[UUID], UUID | None]:
    """The ids of a page, as `list_page` makes it, and what the next page is `before`."""
    bounds = {"limit": limit, "offset": offset, "most_bytes": most_bytes, "most_read": most_read}
    rows = await conn.fetch(LIST.sql, *LIST.bind(list_values(wanted, before=before, **bounds)))
    floor: UUID | None = rows[0]["floor"]
    ids = [row["id"] for row in rows if row["id"] is not None]
    if ids and (len(ids) == limit or len(ids) < rows[0]["page_size"]):
        return ids, ids[-1]
    latest = min(filter(None, (wanted.created_before, wanted.finished_before)), default=None)
    return ids, None if floor is None else _passed_over(floor, latest)


async def list_ended(
    conn: Queryable,
    wanted: JobFilter,
    *,
    before: tuple[datetime, UUID] | None = None,
    limit: int = 50,
    most_read: int,
    whole: bool = True,
) -> EndedPage:
    """Failed and canceled jobs and dead letters, those that ended last first. A page looks at `most_read` of a tenant.

    What succeeded is in no index by its end, which every job would pay for.
    """
    statuses = wanted.statuses or BY_END
    if not set(statuses) <= set(BY_END):
        reason = f"of jobs in the order of their ends is one of {', '.join(BY_END)}"
        raise InvalidInput("The filter", [FieldError("status", reason)])
    limit = min(limit, LARGEST_PAGE)
    before_at, before_id = before or (None, None)
    lowest, highest = wanted.bounds
    values = {name: value for name, value in asdict(wanted).items() if name in LIST_ENDED.names}
    values |= {"statuses": list(statuses), "before_at": before_at, "before": before_id, "limit": limit}
    # Where only the status counts, or nothing, the first of them are mostly it.
    fewer = most_read if _compares_ended(wanted) else (limit if set(statuses) == set(BY_END) else 10 * limit)
    values |= {"lowest": lowest, "highest": highest, "most_read": max(min(fewer, most_read), limit)}
    keys = await conn.fetch(LIST_ENDED.sql, *LIST_ENDED.bind(values))
    ids = [row["id"] for row in keys if row["id"] is not None]
    jobs = await _read(conn, ids, wanted, whole=whole)
    if len(ids) == limit:
        return EndedPage(jobs, (keys[-1]["finished_at"], keys[-1]["id"]))
    reached = keys[0]["reached_id"]
    return EndedPage(jobs, None if reached is None else (keys[0]["reached_at"], reached))


def _compares_ended(wanted: JobFilter) -> bool:
    served = JobFilter(
        wanted.tenant_id, wanted.statuses, finished_after=wanted.finished_after, finished_before=wanted.finished_before
    )
    return wanted != served


def list_values(
    wanted: JobFilter, *, before: UUID | None, most_read: int | None = None, **others: Any
) -> dict[str, Any]:
    """The values of the statement that lists jobs."""
    unknown = set(wanted.statuses or ()) - set(STATUSES)
    if unknown:
        raise InvalidInput("The filter", [FieldError("status", f"is not one of {', '.join(STATUSES)}")])
    lowest, highest = wanted.bounds
    statuses = wanted.chosen_statuses
    before = LAST_ID if before is None else before
    if highest is not None and before > highest:
        before = UUID(int=min(highest.int + 1, LAST_ID.int))
    values = {name: value for name, value in asdict(wanted).items() if name in LIST.names}
    return {
        **values,
        **others,
        "statuses": None if statuses is None else list(statuses),
        "arms": wanted.arms,
        "lowest": lowest,
        "before": before,
        "most_read": most_read if wanted.compares_jobs else None,
    }


def _passed_over(floor: UUID, created_before: datetime | None) -> UUID:
    """Where to go on after a page that ended at `floor`: past the jobs whose ids say that they were created too late.

    What ended before a time was created before it.

    An id is made before its job is created, by a clock that may be a little fast. Ids of the future are not times.
    """
    if created_before is None or floor > first_id(datetime.now(UTC) + CLOCKS_APART):
        return floor
    return min(floor, first_id(created_before + CLOCKS_APART))


async def _read(conn: Queryable, ids: Sequence[UUID], wanted: JobFilter, *, whole: bool) -> list[JobRow]:
    """The jobs of a page, without those that have left its statuses since it was looked up."""
    found = await read_jobs(conn, ids, tenant_id=wanted.tenant_id, whole=whole)
    statuses = wanted.chosen_statuses
    return [job for job in found if statuses is None or job.shown_status in statuses]
