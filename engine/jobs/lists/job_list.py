"""Lists of jobs, page by page: newest first, or in the order of their ends."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.engine.id_prefixes import prefix_bounds
from atlas.engine.jobs.lists.find import JobRow, read_jobs
from atlas.engine.jobs.lists.newest_active import MAX_READ, NewestWindow, is_slowed
from atlas.engine.synonyms import own_statuses
from atlas.errors import FieldError, InvalidInput
from atlas.ids import first_id

LIST = statement("engine/jobs/lists/sql/list.sql")

# How many jobs a page is compared with at most, the newest first, where no index has what is asked for. They are read
# in some tens of milliseconds, wherever they lie in a long history.
MAX_EXAMINED = 1_000
# How many jobs a page with an offset reads at most; the next page skips the rest. Keys alone are read much faster.
MAX_EXAMINED_FOR_OFFSET = 4_000
# No clock of a machine that enqueues is so fast.
CLOCKS_APART = timedelta(days=1)
STATUSES = ("queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled")
# Those that may have an error; and those that are listed by their ends.
WITH_ERRORS = ("failed", "dead_letter", "canceled", "waiting", "running")
BY_END = ("failed", "dead_letter", "canceled")
FIRST_ID, LAST_ID = UUID(int=0), UUID(int=2**128 - 1)


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
    def chosen_statuses(self) -> tuple[str, ...] | None:
        """The statuses to read. Where none is named, an error is looked for where one is shown."""
        if self.statuses is None and any(value is not None for value in self._of_errors):
            return WITH_ERRORS
        return self.statuses

    @property
    def bounds(self) -> tuple[UUID, UUID]:
        """The lowest and the highest id with the prefix, or of all."""
        if self.id_prefix is None:
            return FIRST_ID, LAST_ID
        return prefix_bounds(self.id_prefix)

    @property
    def lists(self) -> list[str]:
        """The lists that a page is merged from: see the function job_keys in SQL."""
        if self.group_id is not None:
            return ["group"]
        if self.correlation_id is not None:
            return ["correlation"]
        if self.parent_run_id is not None:
            return ["children"]
        if self.chosen_statuses is None:
            return ["key"] if self.tenant_id is None else ["ended", "queued", "running"]
        lists = {_LISTS[status] for status in self.chosen_statuses}
        return sorted(lists - {part for whole in lists for part in _PARTS.get(whole, ())})

    @property
    def lists_active(self) -> bool:
        """Whether the lists are those of the active jobs of all tenants, which are slow while the horizon is held."""
        statuses = set(self.chosen_statuses or ())
        is_active = bool(statuses) and statuses <= {"queued", "running"}
        return self.tenant_id is None and is_active and set(self.lists) <= statuses

    @property
    def has_active(self) -> bool:
        """Whether a list of a tenant's active jobs is read, which is slow while the horizon is held."""
        return self.tenant_id is not None and not {"queued", "running"}.isdisjoint(self.lists)

    @property
    def is_exact(self) -> bool:
        """Whether every job of the lists matches."""
        filters = self.given - {"id_prefix"}
        return filters in _EXACT or (filters == {"statuses"} and self.statuses == ("dead_letter",))

    @property
    def max_read(self) -> int | None:
        """How many jobs a page with an offset reads at most; None where it reads keys alone, which are in an index."""
        return None if self.given - {"id_prefix"} in (set(), {"correlation_id"}) else MAX_EXAMINED_FOR_OFFSET

    @property
    def given(self) -> set[str]:
        """The fields that are set, besides the tenant."""
        return {name for name, value in asdict(self).items() if value is not None} - {"tenant_id"}

    @property
    def _of_errors(self) -> tuple[str | None, ...]:
        return self.error_type, self.error_text, self.error_pattern


_LISTS = {
    **{status: status for status in ("queued", "waiting", "running", "failed", "dead_letter")},
    "canceled": "failed",
    "succeeded": "ended",
}
# What a list holds besides.
_PARTS = {"ended": ("failed", "dead_letter"), "queued": ("waiting",)}
_EXACT: tuple[set[str], ...] = (set(), {"correlation_id"}, {"parent_run_id"}, {"group_id"})


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, and what the next page is `before`: None after the last.

    `searched_back_to` is set where the page ended before its limit: older jobs were not compared with the filter.
    `next_offset` is set where it ended within its offset: how many jobs are left for the next page to skip.
    """

    jobs: list[JobRow]
    next_before: UUID | None
    searched_back_to: datetime | None = None
    next_offset: int | None = None


@dataclass(frozen=True, slots=True)
class IdPage:
    """The ids of some jobs, and the same."""

    ids: list[UUID]
    next_before: UUID | None
    searched_back_to: datetime | None = None
    next_offset: int | None = None


@dataclass(frozen=True, slots=True)
class EndedPage:
    """The same in the order of their ends."""

    jobs: list[JobRow]
    next_before: tuple[datetime, UUID] | None
    searched_back_to: datetime | None = None


async def list_jobs(
    conn: Queryable,
    job_filter: JobFilter | None = None,
    *,
    before: UUID | None = None,
    limit: int = 50,
    offset: int = 0,
) -> list[JobRow]:
    """Newest first, after the job `before` of the page before: stable while new jobs arrive, unlike an `offset`."""
    limit = min(limit, MAX_PAGE_SIZE)
    rows: list[JobRow] = []
    while len(rows) < limit + offset:
        page = await list_page(conn, job_filter, before=before, limit=limit + offset - len(rows))
        rows += page.jobs
        before = page.next_before
        if before is None:
            break
    return rows[offset:]


async def list_page(
    conn: Queryable,
    job_filter: JobFilter | None = None,
    *,
    before: UUID | None = None,
    limit: int = 50,
    offset: int = 0,
    max_bytes: int | None = None,
    max_examined: int = MAX_EXAMINED,
    whole: bool = True,
    window: NewestWindow | None = None,
) -> JobPage:
    """The same, as a page that ends early: after the job with which its inputs and outputs reach `max_bytes`, or after
    `max_examined` jobs were compared with what no index serves. It may then be empty, and not the last. Of an offset,
    `next_offset` is what the next page has to skip.

    Without `whole` the jobs have no inputs and outputs, and of their errors the beginning. With a `window`, active jobs
    of a tenant that are older than the newest of all are left to the next page.
    """
    chosen = job_filter or JobFilter()
    bounds: dict[str, Any] = {"limit": min(limit, MAX_PAGE_SIZE), "offset": offset, "max_examined": max_examined}
    keys = await list_ids(conn, chosen, before=before, max_bytes=max_bytes if whole else None, window=window, **bounds)
    jobs = await _read(conn, keys.ids, chosen, whole=whole)
    return JobPage(jobs, keys.next_before, keys.searched_back_to, keys.next_offset)


async def list_ids(
    conn: Queryable,
    job_filter: JobFilter,
    *,
    before: UUID | None,
    limit: int,
    offset: int = 0,
    max_bytes: int | None = None,
    max_examined: int = MAX_EXAMINED,
    window: NewestWindow | None = None,
) -> IdPage:
    """The ids of a page, as `list_page` makes it."""
    latest = min(filter(None, (job_filter.created_before, job_filter.finished_before)), default=None)
    bounds: dict[str, Any] = {"limit": limit, "max_bytes": max_bytes, "max_examined": max_examined}
    may_read = job_filter.max_read if offset else None
    by_key = job_filter.lists_active and await is_slowed(conn)
    window = window if job_filter.has_active else None
    while True:
        values = list_values(job_filter, before=before, offset=offset, **bounds)
        if window is not None:
            values |= {"lists": _newest_active(values["lists"]), "active_after": window.after}
        if by_key:
            values |= {"lists": ["key"], "examined": max(values["examined"], MAX_READ)}
        elif may_read is not None:
            values["examined"] = min(values["examined"], may_read)
        rows = await conn.fetch(LIST.sql, *LIST.bind(values))
        ids = [row["id"] for row in rows if row["id"] is not None]
        if ids and (len(ids) == limit or len(ids) < rows[0]["page_size"]):
            return IdPage(ids, ids[-1])
        reached: UUID | None = rows[0]["reached"]
        before = None if reached is None else _passed_over(reached, latest)
        if window is not None and before is None and window.since is not None:
            # Where other lists were read as well, they were read to their ends.
            is_last = values["lists"] != ["active"]
            return IdPage(ids, None if is_last else UUID(int=window.after.int + 1), window.since)
        if ids or before is None or may_read is None:
            return IdPage(ids, before, rows[0]["searched_back_to"])
        offset -= rows[0]["matched"]
        may_read -= values["examined"]
        if may_read <= 0:
            return IdPage(ids, before, rows[0]["searched_back_to"], offset)


async def list_ended(
    conn: Queryable,
    job_filter: JobFilter,
    *,
    before: tuple[datetime, UUID] | None = None,
    limit: int = 50,
    max_examined: int = MAX_EXAMINED,
    whole: bool = True,
) -> EndedPage:
    """Failed and canceled jobs and dead letters, those that ended last first.

    What succeeded is in no index by its end, which every job would pay for.
    """
    statuses = job_filter.statuses or BY_END
    if not set(statuses) <= set(BY_END):
        reason = f"of jobs in the order of their ends is one of {', '.join(BY_END)}"
        raise InvalidInput("The filter", [FieldError("status", reason)])
    limit = min(limit, MAX_PAGE_SIZE)
    is_exact = set(statuses) == set(BY_END) and job_filter.given <= {"statuses", "finished_after", "finished_before"}
    before_at, before_id = before or (None, LAST_ID)
    if job_filter.finished_before is not None and (before_at is None or before_at >= job_filter.finished_before):
        before_at, before_id = job_filter.finished_before, FIRST_ID
    values = list_values(replace(job_filter, statuses=statuses), before=None, limit=limit) | {
        "lists": ["ends"],
        "examined": limit if is_exact else max(max_examined, limit),
        "before_at": before_at,
        "before": before_id,
        "after_at": job_filter.finished_after,
        "after": FIRST_ID,
    }
    rows = await conn.fetch(LIST.sql, *LIST.bind(values))
    ids = [row["id"] for row in rows if row["id"] is not None]
    jobs = await _read(conn, ids, job_filter, whole=whole)
    if len(ids) == limit:
        return EndedPage(jobs, (rows[-1]["at"], rows[-1]["id"]))
    reached = rows[0]["reached"]
    next_before = None if reached is None else (rows[0]["reached_at"], reached)
    return EndedPage(jobs, next_before, rows[0]["searched_back_to"])


def list_values(
    job_filter: JobFilter,
    *,
    before: UUID | None,
    limit: int,
    offset: int = 0,
    max_bytes: int | None = None,
    max_examined: int = MAX_EXAMINED,
) -> dict[str, Any]:
    """The values of the statement that lists jobs."""
    unknown = set(job_filter.statuses or ()) - set(STATUSES)
    if unknown:
        raise InvalidInput("The filter", [FieldError("status", f"is not one of {', '.join(STATUSES)}")])
    lowest, highest = job_filter.bounds
    statuses = job_filter.chosen_statuses
    before = LAST_ID if before is None else before
    if before > highest:
        before = UUID(int=min(highest.int + 1, LAST_ID.int))
    values = {name: value for name, value in asdict(job_filter).items() if name in LIST.names}
    return {
        **values,
        "statuses": None if statuses is None else list(statuses),
        "lists": job_filter.lists,
        "examined": limit + offset if job_filter.is_exact else max(max_examined, limit + offset),
        "before_at": None,
        "before": before,
        "after_at": None,
        "after": UUID(int=max(lowest.int - 1, 0)),
        "active_after": FIRST_ID,
        "lowest": lowest,
        "highest": highest,
        "limit": limit,
        "offset": offset,
        "max_bytes": max_bytes,
    }


def _newest_active(lists: list[str]) -> list[str]:
    """The lists, with the active jobs among the newest in place of those along the indexes."""
    return [*(name for name in lists if name not in ("queued", "running")), "active"]


def _passed_over(reached: UUID, created_before: datetime | None) -> UUID:
    """Where to go on after a page that ended at `reached`: past the jobs whose ids say that they were created too late.

    What ended before a time was created before it.

    An id is made before its job is created, by a clock that may be a little fast. Ids of the future are not times.
    """
    if created_before is None or reached > first_id(datetime.now(UTC) + CLOCKS_APART):
        return reached
    return min(reached, first_id(created_before + CLOCKS_APART))


async def _read(conn: Queryable, ids: Sequence[UUID], job_filter: JobFilter, *, whole: bool) -> list[JobRow]:
    """The jobs of a page, without those that have left its statuses since it was looked up."""
    rows = await read_jobs(conn, ids, tenant_id=job_filter.tenant_id, whole=whole)
    statuses = job_filter.chosen_statuses
    return [job for job in rows if statuses is None or job.shown_status in statuses]
