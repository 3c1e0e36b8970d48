"""Reading: filters, pages without gaps, and what happens from now on."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from atlas.actors import Actor
from atlas.audit.find import FIND_ALL, NEW, AuditRow, LogPosition, Query, find, find_new, log_position
from atlas.audit.record import Event, record
from atlas.audit.retention import new_epoch
from atlas.audit.sealing.seal import seal
from atlas.audit.sealing.seal_status import seal_lag
from atlas.db.pool import Pool, connect
from atlas.db.statements import fetch
from atlas.errors import InvalidInput
from tests.audit.given import CALLER, TENANTS, event, write, write_many

ERIK = Actor("agent", "erik")


@pytest.fixture
async def some(conn):
    await record(conn, Event("TOKEN_ADDED", "token", "t1", CALLER, TENANTS[0], "for the builder"))
    await record(conn, Event("TOKEN_REVOKED", "token", "t1", ERIK, TENANTS[0], level="warn"))
    await record(conn, Event("HOST_ADDED", "host", "h1", CALLER, TENANTS[1], meta={"name": "Büro"}))
    await record(conn, Event("ATLAS_OFFLINE", "system_state", "atlas_online", ERIK))


FILTERS = [
    (Query(), ["ATLAS_OFFLINE", "HOST_ADDED", "TOKEN_REVOKED", "TOKEN_ADDED"]),
    (Query(tenant_id=TENANTS[0]), ["TOKEN_REVOKED", "TOKEN_ADDED"]),
    (Query(tenant_id=TENANTS[0], actor_id="dana"), ["TOKEN_ADDED"]),
    (Query(actor_id="erik"), ["ATLAS_OFFLINE", "TOKEN_REVOKED"]),
    (Query(actions=("HOST_ADDED", "TOKEN_ADDED")), ["HOST_ADDED", "TOKEN_ADDED"]),
    (Query(entity_id="t1"), ["TOKEN_REVOKED", "TOKEN_ADDED"]),
    (Query(entity_id="t1", tenant_id=TENANTS[1]), []),
    (Query(entity_type="host"), ["HOST_ADDED"]),
    (Query(text="BUILDER"), ["TOKEN_ADDED"]),
    (Query(text="büro"), ["HOST_ADDED"]),
    (Query(text="100%"), []),
    (Query(text="BUILDER", tenant_id=TENANTS[0]), ["TOKEN_ADDED"]),
    (Query(text="büro", tenant_id=TENANTS[1]), ["HOST_ADDED"]),
    (Query(text="rik", entity_id="t1"), ["TOKEN_REVOKED"]),
    (Query(text="T1", tenant_id=TENANTS[0]), ["TOKEN_REVOKED", "TOKEN_ADDED"]),
    (Query(text="N_A", tenant_id=TENANTS[0]), ["TOKEN_ADDED"]),
    (Query(text="N%A", tenant_id=TENANTS[0]), []),
    (Query(text="token_added t1"), []),
    (Query(since=datetime(2000, 1, 1, tzinfo=UTC), until=datetime(2001, 1, 1, tzinfo=UTC)), []),
]


async def test_filters_choose_what_they_say(conn, some):
    for query, actions in FILTERS:
        page = await find(conn, query)
        assert [entry.action for entry in page.entries] == actions, query
        assert page.cursor is None


async def test_pages_follow_each_other_without_gap_or_repetition(conn):
    await write_many(conn, 95)
    for query in (Query(), Query(tenant_id=TENANTS[0]), Query(text="job_succeeded")):
        whole = [entry.id for entry in (await find(conn, query, limit=1000)).entries]
        page = await find(conn, query, limit=7)
        seen = [entry.id for entry in page.entries]
        while page.cursor is not None:
            page = await find(conn, query, limit=7, cursor=page.cursor)
            seen += [entry.id for entry in page.entries]
        assert seen == whole == sorted(whole, reverse=True)


async def test_a_cursor_that_no_page_gave_is_refused(conn):
    for cursor in ("", "1", "1.2", "a.b.c", "1.2.3.4", "-1.2.3", f"1.{2**64}.3", f"1.2.{2**63}"):
        with pytest.raises(InvalidInput, match="cursor"):
            await find(conn, cursor=cursor)


async def test_a_time_cuts_off_what_was_sealed_long_before_it(conn, owner):
    await write_many(conn, 3)
    await seal(conn)
    await owner.execute(
        "alter table atlas.audit_seal disable trigger all; alter table atlas.audit_log disable trigger all"
    )
    await owner.execute("update atlas.audit_seal set sealed_at = sealed_at - interval '1 hour'")
    await owner.execute("update atlas.audit_log set created_at = created_at - interval '1 hour'")
    await write_many(conn, 2)

    recent = await find(conn, Query(since=datetime.now(UTC) - timedelta(minutes=30)))
    assert len(recent.entries) == 2


async def test_a_page_is_read_by_its_index_without_sorting_the_audit_log(conn, owner):
    await write_many(conn, 3000)
    await owner.execute("analyze atlas.audit_log")
    everything = {"before_epoch": 9, "before_xid": "999999", "before_id": 0, "limit": 10}
    pages = [("audit_log_seal", FIND_ALL.sql, FIND_ALL.bind(dict.fromkeys(FIND_ALL.names) | everything))]
    for index, query in (
        ("audit_log_tenant", Query(tenant_id=TENANTS[0])),
        ("audit_log_entity", Query(entity_id="17")),
        ("audit_log_entity", Query(entity_id="17", tenant_id=TENANTS[0], text="job")),
    ):
        pages.append((index, *await _sent(conn, query)))
    for index, sql, values in pages:
        plan = await conn.fetch(f"explain analyze {sql}", *values)
        text = "\n".join(row[0] for row in plan)
        assert f"using {index} on audit_log" in text or f"Bitmap Index Scan on {index}" in text
        assert "Seq Scan on audit_log" not in text


async def _sent(conn, query: Query) -> tuple[str, list[Any]]:
    """The statement by which a page is read, and its values."""
    sent: list[Any] = []
    conn.add_query_logger(sent.append)
    await find(conn, query, limit=9)
    await asyncio.sleep(0)  # asyncpg reports it with the loop's next turn
    conn.remove_query_logger(sent.append)
    [page] = [one for one in sent if "audit_entries" in one.query]
    return page.query, page.args


@pytest.mark.parametrize("since", ["null", "'2001-01-01'", "now() + interval '1 hour'"])
async def test_a_time_is_found_among_the_seals_by_an_index(conn, since):
    for _ in range(20):
        await write(conn, 1)
        await seal(conn)
    place = {"before_epoch": "9", "before_xid": "'999999'", "before_id": "0", "limit": "10", "since": since}
    values = ", ".join(place.get(name, "null") for name in FIND_ALL.names)
    async with conn.transaction():
        # As it is planned once a connection has run it some times.
        await conn.execute("set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off")
        await conn.execute(f"prepare page as {FIND_ALL.sql}")
        plan = await conn.fetchval(f"explain (analyze, format json) execute page ({values})")
        await conn.execute("deallocate page")
    seals = [node for node in _nodes(json.loads(plan)[0]["Plan"]) if node.get("Relation Name") == "audit_seal"]
    assert seals
    assert all(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) <= 1 for node in seals)


@pytest.fixture
async def restored(conn, owner):
    """An audit log in another cluster than the one that wrote it, where transaction ids were an hour ahead of these."""
    await write_many(conn, 4)
    await seal(conn)
    for table in ("audit_log", "audit_seal", "audit_epoch"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
    await owner.execute("update atlas.audit_epoch set system_identifier = 42")
    await owner.execute("update atlas.audit_log set created_at = created_at - interval '1 hour'")
    # In the windows that come next, as old transactions of a real restore are.
    await owner.execute(
        "update atlas.audit_log set xid = (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + id * 3)::text::xid8"
    )
    await owner.execute(
        "update atlas.audit_seal set sealed_at = sealed_at - interval '1 hour', snap_cur = '900000000:900000000:'"
    )


async def test_a_time_shows_what_was_written_since_a_restore(conn, owner, restored):
    since = datetime.now(UTC) - timedelta(minutes=30)
    await record(conn, event(1, action="SINCE"))
    assert [entry.action for entry in (await find(conn, Query(since=since))).entries] == ["SINCE"]

    await new_epoch(owner, reason="restored", actor=CALLER)
    await seal(conn)
    await record(conn, event(1, action="LATER"))
    found = await find(conn, Query(since=since))
    assert [entry.action for entry in found.entries] == ["LATER", "AUDIT_EPOCH", "SINCE"]


async def test_what_was_written_since_a_restore_waits_for_its_seal(conn, owner, restored):
    assert await seal_lag(conn) == 0
    await record(conn, event(1))
    await owner.execute("update atlas.audit_log set created_at = created_at - interval '2 minutes' where id > 4")
    assert 120 <= await seal_lag(conn) < 300
    await new_epoch(owner, reason="restored", actor=CALLER)
    await seal(conn)
    assert await seal_lag(conn) == 0


async def test_following_shows_nothing_old_after_a_restore(pool, conn, restored):
    seen: list[str] = []
    since = await log_position(conn)
    async with aclosing(follow(pool, since=since)) as entries:
        following = asyncio.ensure_future(_collect(entries, seen, 9))
        for _ in range(9):
            await record(conn, event(1, action="NEW"))
        await asyncio.wait_for(following, 20)
    assert seen == ["NEW"] * 9


async def test_following_shows_each_event_once_although_it_commits_late(pool, conn, database_url):
    late = await connect(database_url)
    transaction = late.transaction()
    await transaction.start()
    await record(late, event(1, action="LATE"))
    await record(conn, event(2, action="BEFORE"))

    seen: list[str] = []
    since = await log_position(conn)
    async with aclosing(follow(pool, since=since)) as entries:
        following = asyncio.ensure_future(_collect(entries, seen, 3))
        await record(conn, event(3, action="FIRST"))
        while seen != ["FIRST"]:
            await asyncio.sleep(0.01)
        await transaction.commit()
        while len(seen) < 2:
            await asyncio.sleep(0.01)
        await record(conn, event(4, action="LAST"))
        await asyncio.wait_for(following, 10)
    await late.close()
    assert seen == ["FIRST", "LATE", "LAST"]


async def test_following_shows_what_is_sealed_between_the_horizon_and_the_rows(conn):
    await write(conn, 2)
    await seal(conn)
    since = await log_position(conn)
    await record(conn, event(1, action="SHOWN"))
    now = await log_position(conn)
    await record(conn, event(2, action="LATER"))
    await seal(conn)

    values = dict.fromkeys(NEW.names) | {"epoch": now.epoch, "prev": since.snapshot, "cur": now.snapshot}
    rows = await fetch(conn, NEW, **values)
    assert [row["action"] for row in rows] == ["SHOWN"]


async def test_following_looks_at_the_last_seal_alone(conn):
    for _ in range(20):
        await write(conn, 1)
        await seal(conn)
    since = await log_position(conn)
    await write(conn, 1)
    now = await log_position(conn)
    values = dict.fromkeys(NEW.names) | {"epoch": now.epoch, "prev": since.snapshot, "cur": now.snapshot}
    async with conn.transaction():
        await conn.execute("set local enable_seqscan = off; set local enable_sort = off")
        plan = await conn.fetchval(f"explain (analyze, format json) {NEW.sql}", *NEW.bind(values))
    [seals] = [node for node in _nodes(json.loads(plan)[0]["Plan"]) if node.get("Relation Name") == "audit_seal"]
    assert seals["Actual Rows"] + seals.get("Rows Removed by Filter", 0) == 1


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


async def _collect(entries, seen: list[str], count: int) -> None:
    async for entry in entries:
        seen.append(entry.action)
        if len(seen) == count:
            return


async def follow(pool: Pool, *, since: LogPosition) -> AsyncIterator[AuditRow]:
    """Entries as they are committed after a position."""
    while True:
        async with pool.acquire() as conn:
            since, rows = await find_new(conn, Query(), since=since)
        for row in rows or ():
            yield row
        await asyncio.sleep(0.02)
