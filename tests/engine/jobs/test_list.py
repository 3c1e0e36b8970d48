"""Lists of jobs: every filter finds what it names, and costs a tenant the same whatever others have."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from atlas.db.statements import Statement
from atlas.engine.jobs.lists.job_list import (
    LIST,
    STATUSES,
    JobFilter,
    list_ended,
    list_ids,
    list_jobs,
    list_page,
    list_values,
)
from bench.lists import RUN, make_history
from tests.engine.retention.test_history import file_all
from tests.engine.retention.test_retention import age
from tests.support import PROOF, given_tenant

# Time-ordered ids, so that jobs of all statuses and tenants lie beside each other. Of a hundred, some are not succeeded.
FILL = """
insert into atlas.jobs (id, tenant_id, job_type, status, created_at, started_at, finished_at, dead_lettered_at, claimed_by,
  next_retry_at, attempt_count, correlation_id)
select (lpad(to_hex(1700000000000 + i * $4), 12, '0') || '7000' || '8' || lpad(to_hex(i), 15, '0'))::uuid, $1::uuid, 'work.' || i % 20,
  status::atlas.job_status, now(), now(), case when status in ('succeeded', 'failed', 'canceled') then now() end,
  case when status = 'failed' and i % 2 = 0 then now() end, 'w', case when status = 'queued' and i % 8 < 4 then now() + interval '1 day' end,
  1, 'c-' || i % 100
from (
  select i, coalesce(($3::text[])[1 + i % 100], 'succeeded') as status from generate_series(1, $2::int) i) x
"""
MIXED = ["queued", "running", "failed", "canceled", "queued", "failed"]
OTHERS = 120_000
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

FILTERS: list[dict[str, Any]] = [
    {},
    *({"statuses": (status,)} for status in STATUSES),
    {"job_type": "work.7"},
    {"job_type": "unknown"},
    {"source": "event"},
    {"correlation_id": "c-7"},
    {"created_after": LONG_AGO},
    {"created_before": LONG_AGO},
    {"statuses": ("succeeded", "failed", "queued", "waiting", "running")},
    {"statuses": ("dead_letter", "canceled")},
    {"statuses": ("succeeded",), "worker_id": "unknown"},
    {"error_type": "ValueError"},
    {"error_text": "refused"},
    {"error_pattern": "# refused"},
    {"host_id": UUID(int=7)},
    {"parent_run_id": UUID(int=7)},
    {"finished_after": LONG_AGO},
    {"finished_before": LONG_AGO},
    {"id_prefix": "018bcfe5"},
    {"before": UUID(int=0xFFFF << 112)},
    {"before": UUID(int=1)},
    {"statuses": ("queued",), "job_type": "unknown"},
    {"statuses": ("running",), "correlation_id": "c-7"},
]
PAGE: dict[str, Any] = {"limit": 50, "offset": 0, "max_bytes": 4_000_000}


async def cost_of(conn: Any, query: Statement, tenant: UUID | None, values: dict[str, Any]) -> int:
    """Buffers touched by a statement, behind row-level security if a tenant asks."""
    async with conn.transaction(readonly=True):
        if tenant is not None:
            await conn.execute(f"set local atlas.tenant = '{tenant}'; set local role atlas_tenant")
        # The first call plans, which reads the catalog.
        await conn.fetch(query.sql, *query.bind(values))
        explained = await conn.fetchval(f"explain (analyze, buffers, format json) {query.sql}", *query.bind(values))
    plan = orjson.loads(explained)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def cost_of_a_page(conn: Any, tenant: UUID | None, wanted: dict[str, Any]) -> int:
    paging = {name: value for name, value in wanted.items() if name in ("before", "max_examined")}
    chosen = JobFilter(tenant, **{name: value for name, value in wanted.items() if name not in paging})
    return await cost_of(conn, LIST, tenant, list_values(chosen, **{"before": None, **paging, **PAGE}))


async def costs_of_pages(conn: Any, tenant: UUID | None) -> list[int]:
    for _ in range(2):  # the first reading sets hint bits and fills caches
        costs = [await cost_of_a_page(conn, tenant, wanted) for wanted in FILTERS]
    return costs


@pytest.mark.slow
async def test_a_list_behind_row_level_security_costs_the_same_beside_others(conn, owner):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    await owner.execute(FILL, mine, 700, MIXED, 1000)
    await owner.execute("vacuum analyze atlas.jobs")
    alone = await costs_of_pages(conn, mine)
    # Every hundredth runs or is queued: a list that reads their rows reads most pages of the table.
    await owner.execute(FILL, other, OTHERS, MIXED, 5)
    for statistics in ("as they were", "fresh"):
        if statistics == "fresh":
            await owner.execute("vacuum analyze atlas.jobs")
        crowded, operators = await costs_of_pages(conn, mine), await costs_of_pages(conn, None)
        for wanted, before, now, all_tenants in zip(FILTERS, alone, crowded, operators, strict=True):
            said = f"{wanted} with statistics {statistics}: {now} buffers, {before} alone, {all_tenants} of all tenants"
            print(said)
            assert now <= before * 1.5 + 60, said
            assert now <= all_tenants * 1.5 + 150, said


READ = """
select sum(pg_stat_get_xact_tuples_returned(c.oid))::int
from pg_class c left join pg_index i on i.indexrelid = c.oid
where coalesce(i.indrelid, c.oid) = 'atlas.jobs'::regclass
"""
JOBS, TENANTS, EXAMINED = (1_000_000, 200, 2_000) if PROOF else (20_000, 100, 200)
ERRORS: list[dict[str, Any]] = [
    {"statuses": ("failed",), "job_type": "unknown"},
    {"statuses": ("canceled",), "error_text": "unknown"},
    {"error_text": "unknown", "id_prefix": "01"},
    {"parent_run_id": RUN},
    {"parent_run_id": RUN, "statuses": ("failed",)},
]
# Filters that count an offset in keys alone, and those that compare the jobs that it skips.
OFFSET = 10_000 if PROOF else 2_000
KEYS_ONLY: list[dict[str, Any]] = [{}, {"statuses": ("dead_letter",)}, {"correlation_id": "request-7"}]
COMPARED: list[dict[str, Any]] = [{"statuses": ("succeeded",)}, {"job_type": "unknown"}]
BY_END: list[dict[str, Any]] = [{}, {"statuses": ("canceled",)}, {"job_type": "unknown"}, {"error_text": "unknown"}]


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_a_page_reads_a_bounded_number_of_entries_however_jobs_are_spread(conn, owner, database_url):
    """Over tenants of very different sizes, on the embedded server and on one with the settings of Postgres itself, before
    and after statistics are there: for operators, the largest and the smallest tenant."""
    await make_history(database_url, JOBS, TENANTS)
    largest, smallest = [
        await owner.fetchval("select id from atlas.tenants where slug = $1", slug) for slug in ("t0", f"t{TENANTS - 1}")
    ]
    excess = []
    for statistics, page_cost in (("fresh", 1.1), ("fresh", 4), ("none", 4)):
        if statistics == "none":
            await owner.execute("delete from pg_statistic where starelid = 'atlas.jobs'::regclass")
        await conn.execute("discard plans")
        for tenant in (None, largest, smallest):
            for read, chosen in (
                *((list_page, each) for each in (*FILTERS, *ERRORS)),
                *((list_ended, each) for each in BY_END),
            ):
                wanted = JobFilter(tenant, **{name: value for name, value in chosen.items() if name != "before"})
                entries = await _entries_read(conn, tenant, page_cost, read, wanted, chosen.get("before"))
                if entries > 8 * EXAMINED + 12 * _lists_of(wanted):
                    where = f"tenant {tenant}, statistics {statistics}, page cost {page_cost}"
                    excess.append(f"{read.__name__} {chosen}, {where}: {entries:,} entries")
            for chosen in (*KEYS_ONLY, *COMPARED):
                wanted = JobFilter(tenant, **chosen)
                entries = await _entries_read(conn, tenant, page_cost, list_page, wanted, None, offset=OFFSET)
                most = 1.5 * OFFSET if chosen in KEYS_ONLY else 4 * (OFFSET + 4 * EXAMINED)
                if entries > most + 60 * _lists_of(wanted) + 200:
                    excess.append(f"offset {OFFSET} {chosen}, tenant {tenant}, statistics {statistics}: {entries:,}")
    assert excess == []


def _lists_of(wanted: JobFilter) -> int:
    return len(wanted.lists) * (1 if wanted.tenant_id or wanted.lists == ["key"] else TENANTS)


async def _entries_read(
    conn: Any, tenant: UUID | None, page_cost: float, read: Any, wanted: JobFilter, before: Any, **options: Any
) -> int:
    async with conn.transaction():
        if tenant is not None:
            await conn.execute(f"set local atlas.tenant = '{tenant}'; set local role atlas_tenant")
        await conn.execute(f"set local random_page_cost = {page_cost}")
        at_first = await conn.fetchval(READ)
        await read(conn, wanted, before=before, limit=50, max_examined=EXAMINED, **options)
        return int(await conn.fetchval(READ) - at_first)


async def test_comparing_a_job_calls_no_function(conn):
    """A call takes as long as ten comparisons, for each job that a page examines."""
    plan = await conn.fetch("explain select from atlas.jobs j where atlas.shown_status(j) = 'waiting'")
    assert "shown_status" not in str(plan)


@pytest.mark.long
async def test_what_is_active_or_failed_is_listed_without_reading_what_succeeded(conn, owner):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(3)]
    await owner.execute(FILL, tenants[0], OTHERS // 2, [], 1)
    await owner.execute("vacuum analyze atlas.jobs")
    for status in STATUSES:
        if status != "succeeded":
            assert await cost_of_a_page(conn, None, {"statuses": (status,)}) < 60, status
            assert await cost_of_a_page(conn, tenants[0], {"statuses": (status,)}) < 60, status


@pytest.mark.long
async def test_what_is_due_later_is_listed_without_reading_what_is_due(conn, owner):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(3)]
    await owner.execute(FILL, tenants[0], OTHERS // 4, ["queued"] * 100, 1)
    await owner.execute("update atlas.jobs set next_retry_at = null where correlation_id <> 'c-1'")
    await owner.execute("vacuum analyze atlas.jobs")
    for tenant in (None, tenants[0]):
        page = await cost_of_a_page(conn, tenant, {"statuses": ("waiting",)})
        print(f"{page} buffers")
        assert page < 600  # of a thousand


@pytest.mark.long
async def test_a_page_far_back_costs_what_the_first_one_costs(conn, owner):
    mine = await given_tenant(conn)
    await owner.execute(FILL, mine, OTHERS // 2, ["failed", "queued"], 5)
    await owner.execute("vacuum analyze atlas.jobs")
    middle = UUID(f"{1700000000000 + OTHERS // 4 * 5:012x}" + "7000" + "8" + "0" * 15)
    for wanted in ({}, {"statuses": ("succeeded",)}, {"statuses": ("failed",)}, {"statuses": ("queued",)}):
        first, far = [
            await cost_of_a_page(conn, mine, {**wanted, "before": before, "max_examined": 1000})
            for before in (None, middle)
        ]
        print(f"{wanted}: {first} buffers, {far} far back")
        assert far <= first + 20, wanted


@pytest.mark.long
@pytest.mark.parametrize("status", [None, *STATUSES])
async def test_pages_that_end_before_they_find_anything_lead_to_all_of_it(conn, owner, status):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(2)]
    for n, tenant in enumerate(tenants):
        await owner.execute(FILL, tenant, 60, MIXED * 4, 1000 + n)
    for tenant in (None, tenants[0]):
        wanted = JobFilter(tenant, status and (status,), "work.7")
        expected = [job.id for job in await _all(conn, wanted)]
        assert await _ids_page_by_page(conn, wanted) == expected, wanted


async def _ids_page_by_page(conn: Any, wanted: JobFilter) -> list[UUID]:
    """The ids on pages that each look at seven jobs of a status."""
    found: list[UUID] = []
    page = await list_page(conn, wanted, max_examined=7, limit=2)
    while page.next_before is not None:
        found += [job.id for job in page.jobs]
        page = await list_page(conn, wanted, before=page.next_before, max_examined=7, limit=2)
    return found + [job.id for job in page.jobs]


async def test_what_was_created_before_a_time_is_on_the_second_page(conn, owner):
    mine = await given_tenant(conn)
    await owner.execute(FILL.replace("i * $4", "i * $4::bigint"), mine, 1000, [], 8_640_000)
    await owner.execute(
        "update atlas.jobs set created_at = to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)"
    )
    oldest = (await _all(conn))[-20:]
    wanted = JobFilter(mine, created_before=oldest[0].created_at + timedelta(milliseconds=1))
    for tenant_wanted in (wanted, replace(wanted, tenant_id=None)):
        page = await list_page(conn, tenant_wanted, max_examined=50)
        assert page.jobs == []
        assert page.next_before is not None
        fiftieth = (await list_jobs(conn, limit=1, offset=49))[0]
        assert page.searched_back_to == fiftieth.created_at
        page = await list_page(conn, tenant_wanted, before=page.next_before, max_examined=50)
        assert [job.id for job in page.jobs] == [job.id for job in oldest]
        assert (page.next_before, page.searched_back_to) == (None, None)


@pytest.mark.long
@pytest.mark.parametrize("crowd", [0, 3])
async def test_every_filter_finds_what_it_names_page_by_page(conn, owner, crowd):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(1 + crowd)]
    for n, tenant in enumerate(tenants):
        await owner.execute(FILL, tenant, 60, MIXED * 4, 1000 + n)
    every = await _all(conn)
    assert [job.id for job in every] == sorted((job.id for job in every), reverse=True)
    assert len(every) == 60 * len(tenants)
    for tenant in (None, *tenants):
        for status in (None, *STATUSES):
            for job_type in (None, "work.7"):
                expected = [
                    job.id
                    for job in every
                    if tenant in (None, job.tenant_id)
                    and status in (None, job.shown_status)
                    and job_type in (None, job.job_type)
                ]
                wanted = JobFilter(tenant, status and (status,), job_type)
                assert [job.id for job in await _all(conn, wanted)] == expected, wanted
                assert [job.id for job in await list_jobs(conn, wanted, limit=5, offset=3)] == expected[3:8]


async def _all(conn: Any, wanted: JobFilter | None = None) -> list[Any]:
    """All pages, joined."""
    found: list[Any] = []
    while True:
        page = await list_jobs(conn, wanted, before=found[-1].id if found else None, limit=31)
        found += page
        if not page:
            return found


SPREAD = """
update atlas.jobs set finished_at = now() - abs(hashtext(id::text)) % 5 * interval '1 day', error = '{"type": "ValueError", "message": "7 refused"}'
where status in ('succeeded', 'failed', 'canceled')"""


@pytest.mark.long
async def test_lists_are_the_same_after_finished_jobs_moved_into_history(conn, pool, owner):
    """For an operator and for tenants behind row-level security, page by page; of the parts only few are read."""
    tenants = [await given_tenant(conn, f"t{n}") for n in range(2)]
    for n, tenant in enumerate(tenants):
        await owner.execute(FILL, tenant, 40, MIXED * 4, 1000 + n)
    await owner.execute(SPREAD)
    await age(conn, days=0)

    async def read() -> list[Any]:
        found: list[Any] = []
        for tenant in (None, *tenants):
            async with conn.transaction():
                if tenant is not None:
                    await conn.execute(f"set local atlas.tenant = '{tenant}'; set local role atlas_tenant")
                for chosen in FILTERS:
                    wanted = JobFilter(tenant, **{name: value for name, value in chosen.items() if name != "before"})
                    page = await list_ids(conn, wanted, before=None, limit=50, offset=3, max_bytes=500)
                    found.append((wanted, page))
                wanted = JobFilter(tenant, ("succeeded", "failed"), "work.7")
                found.append(await _ids_page_by_page(conn, wanted))
                found.append((await list_page(conn, JobFilter(tenant), limit=5)).jobs)
                ended = await list_ended(conn, JobFilter(tenant), limit=7)
                found.append(ended)
                found.append(await list_ended(conn, JobFilter(tenant), before=ended.next_before))
                # What a tenant may not see, it does not see in history either.
                found.append(await list_ids(conn, JobFilter(tenants[0]), before=None, limit=50))
        return found

    before = await read()
    assert await file_all(pool) > 40
    parts = await conn.fetchval("select count(*) from pg_inherits where inhparent = 'atlas.jobs'::regclass")
    assert parts >= 5
    for was, now in zip(before, await read(), strict=True):
        assert now == was
    async with conn.transaction():
        await conn.execute("set local role atlas_tenant")
        unnamed = await list_ids(conn, JobFilter(None), before=None, limit=50)
        named = await list_ids(conn, JobFilter(tenants[0]), before=None, limit=50)
    assert (unnamed.ids, named.ids) == ([], [])
    # A part whose newest id is older than a page is not read: it is locked, and nobody waits.
    oldest = await owner.fetchval(
        "select 'atlas.jobs_history_' || part from atlas.history_bounds order by max_id limit 1"
    )
    await owner.execute(
        "update atlas.history_bounds set max_id = $1 where 'atlas.jobs_history_' || part = $2", UUID(int=1), oldest
    )
    async with owner.transaction():
        await owner.execute(f"lock table only {oldest} in access exclusive mode")
        for tenant in (None, tenants[0]):
            assert await asyncio.wait_for(list_ids(conn, JobFilter(tenant), before=None, limit=3), 60)
