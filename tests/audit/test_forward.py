"""Forwarding: every sealed row reaches its destination at least once and in order, whatever fails on the way."""

import asyncio
import sys
from contextlib import aclosing
from datetime import timedelta

import orjson
import pytest
import trustme

from atlas.audit.forwarding import forwarder as forwarding
from atlas.audit.forwarding.destinations import Credentials, Undelivered, open_destination
from atlas.audit.forwarding.forwarder import forward, keep_forwarding
from atlas.audit.forwarding.places import add_forwarder, list_forwarders, remove_forwarder, store_place
from atlas.audit.forwarding.sealed_rows import Place, SealedRow
from atlas.audit.forwarding.shapes import as_cef, as_json, as_ocsf
from atlas.audit.forwarding.syslog import syslog_frame
from atlas.audit.retention import prune
from atlas.audit.sealing.seal import seal
from atlas.cli.doctor.forwarders import check_forwarders
from atlas.errors import Conflict, InvalidInput, NotFound
from tests.audit.given import CALLER, audit_log, write, write_many
from tests.audit.receivers import HEADER, authorities, collecting, listening
from tests.audit.test_retention import grown_old
from tests.cli.conftest import environment

EVENT = {
    "action": "TENANT_EDITED", "actor_id": "dana", "actor_type": "user", "entity_id": "7", "entity_type": "tenant",
    "level": "warn", "message": "a=b|c\\d\nnext", "meta": {"name": "Ünal"}, "tenant_id": "t-1",
}  # fmt: skip
ROW = SealedRow(5, 9, 1, 3, "2026-11-17T10:00:00.250000+00:00", EVENT)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def quick(monkeypatch) -> None:
    """Rows that were not taken are sent again at once, in small chunks."""
    monkeypatch.setattr(forwarding, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(forwarding, "MAX_ROWS", 7)


async def sent(pool, destination, name="siem"):
    """Forward what is sealed; how many rows were taken."""
    stop = asyncio.Event()
    return sum([one.sent async for one in keep_forwarding(pool, name, destination, stop=stop, follow=False)])


async def sealed_count(conn):
    return await conn.fetchval("select coalesce(sum(count - 1), 0) from atlas.audit_seal")


def numbers(lines):
    return [orjson.loads(line)["number"] for line in lines]


async def test_a_file_gets_every_sealed_row_once_and_none_before_its_seal(conn, pool, installation, tmp_path, quick):
    await audit_log(conn, installation)
    file = tmp_path / "audit.jsonl"
    target = open_destination(f"file://{file}", "json")
    await add_forwarder(conn, "siem", str(file), "json", actor=CALLER)
    await sent(pool, target)
    lines = file.read_bytes().splitlines()
    assert numbers(lines) == [*range(1, await sealed_count(conn) + 1)]
    assert [orjson.loads(line)["id"] for line in lines] == [
        row["id"]
        for row in await conn.fetch("select id from atlas.audit_log where action = 'THING_CHANGED' order by xid, id")
    ]

    await write(conn, 3)  # not sealed yet
    assert await sent(pool, target) == 0
    await seal(conn)
    with file.open("ab") as torn:
        torn.write(b'{"number": 99, "cut o')
    assert await sent(pool, target) == 4  # with the event of the forwarder
    assert numbers(file.read_bytes().splitlines()) == [*range(1, await sealed_count(conn) + 1)]


async def test_a_syslog_server_gets_every_row_also_after_connections_broke(conn, pool, tmp_path, authority, quick):
    await write(conn, 30)
    await seal(conn)
    with listening(authority) as listener:
        listener.resets = 2
        given = Credentials(authorities(authority, tmp_path))
        target = open_destination(f"syslog+tls://localhost:{listener.port}", "json", given)
        await add_forwarder(conn, "siem", "syslog", "json", actor=CALLER)
        await sent(pool, target)

    parts = [HEADER.fullmatch(frame) for frame in listener.frames]
    assert [int(part[5]) for part in parts] == [*range(1, 31)]
    assert numbers(part[6] for part in parts) == [*range(1, 31)]
    assert {part[1] for part in parts} == {b"110"}  # log audit, informational
    assert listener.connections == 2 + 5


@pytest.mark.long
async def test_a_collector_that_fails_sometimes_gets_every_row_at_least_once(conn, pool, tmp_path, authority, quick):
    await write(conn, 30)
    await seal(conn)
    (tmp_path / "token").write_text("s3cret\n")
    with collecting(authority) as collector:
        collector.fails = [False, True, False]  # The second is stored before it fails.
        given = Credentials(authorities(authority, tmp_path), token=tmp_path / "token")
        target = open_destination(f"https://localhost:{collector.server_port}/audit", "json", given)
        await add_forwarder(conn, "siem", "https", "json", actor=CALLER)
        assert await sent(pool, target) == 30
        await target.close()

    assert numbers(collector.lines) == [*range(1, 8), *range(1, 31)]
    head = collector.headers[-1]
    assert (head["authorization"], head["atlas-audit-first"], head["atlas-audit-last"]) == ("Bearer s3cret", "29", "30")


async def test_a_server_whose_certificate_is_not_trusted_gets_nothing(conn, pool, tmp_path, authority, monkeypatch):
    await write(conn, 1)
    await seal(conn)
    monkeypatch.setattr(forwarding, "MAX_SECONDS", 0.0)
    await add_forwarder(conn, "siem", "x", "json", actor=CALLER)
    given = Credentials(authorities(trustme.CA(), tmp_path))
    with listening(authority) as listener, collecting(authority) as collector:
        for address in (f"syslog+tls://localhost:{listener.port}", f"https://localhost:{collector.server_port}/"):
            with pytest.raises(Undelivered, match="(?i)certificate"):
                await sent(pool, open_destination(address, "json", given))
    assert (listener.frames, collector.lines) == ([], [])
    assert (await list_forwarders(conn))[0].place == Place()


@pytest.mark.long
async def test_a_forwarder_that_is_killed_goes_on_without_a_gap(conn, pool, tmp_path, database_url, authority):
    await write_many(conn, 2_000)
    await seal(conn)
    with collecting(authority) as collector:
        collector.hold_after = 2
        address = f"https://localhost:{collector.server_port}/audit"
        ca = authorities(authority, tmp_path)
        argv = [sys.executable, "-m", "atlas.cli.main", "audit", "forward", address, "--ca", str(ca), "--follow"]
        env = environment(tmp_path / "home", DATABASE_URL=database_url)
        process = await asyncio.create_subprocess_exec(*argv, env=env, stdout=asyncio.subprocess.DEVNULL)
        try:
            assert await asyncio.to_thread(collector.holding.wait, 60)  # the third chunk is on its way
        finally:
            process.kill()
            await process.wait()
        collector.hold_after = None
        collector.released.set()
        await seal(conn)
        target = open_destination(address, "json", Credentials(ca))
        await sent(pool, target, name=address)
        await target.close()

    arrived, expected = numbers(collector.lines), [*range(1, await sealed_count(conn) + 1)]
    assert sorted({*arrived}) == expected
    assert len(arrived) == len(expected) + 500  # the chunk that was stored before the forwarder was killed


async def test_two_forwarders_of_one_name_are_noticed_and_one_that_is_removed_stops(conn, pool, tmp_path, quick):
    await write(conn, 30)
    await seal(conn)
    await add_forwarder(conn, "siem", "x", "json", actor=CALLER)
    async with aclosing(forward(pool, "siem", open_destination(str(tmp_path / "a"), "json"), max_rows=7)) as first:
        await anext(first)
        await sent(pool, open_destination(str(tmp_path / "b"), "json"))
        with pytest.raises(Conflict, match="Another forwarder runs under the name 'siem'"):
            await anext(first)
    await remove_forwarder(conn, "siem", actor=CALLER)
    with pytest.raises(NotFound):
        await sent(pool, open_destination(str(tmp_path / "b"), "json"))
    actions = await conn.fetch("select action from atlas.audit_log where entity_type = 'audit_forwarder' order by id")
    assert [row["action"] for row in actions] == ["AUDIT_FORWARDER_ADDED", "AUDIT_FORWARDER_REMOVED"]


async def test_the_lag_of_a_forwarder_is_shown_and_the_doctor_warns_of_it(conn, owner, pool, tmp_path, quick):
    assert await check_forwarders(conn) == []
    await write(conn, 10)
    await seal(conn)
    [status] = [await add_forwarder(conn, "siem", "https://u:p@example.org/?t=1", "cef", actor=CALLER)]
    assert (status.destination, status.shape, status.lag_rows) == ("https://example.org/", "cef", 10)
    assert status.lag_seconds > 0
    await store_place(conn, "siem", Place(), Place(0, 4), sent=4)
    assert (await list_forwarders(conn))[0].lag_rows == 6
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    await owner.execute("update atlas.audit_seal set sealed_at = sealed_at - interval '10 minutes'")
    [found] = await check_forwarders(conn)
    assert (found.verdict, "siem is 6 rows and 60" in found.found) == ("warn", True)

    await sent(pool, open_destination(str(tmp_path / "a"), "cef"))
    [status] = await list_forwarders(conn)
    assert (status.sent, status.lag_rows, status.lag_seconds) == (10, 0, 0.0)
    assert (await check_forwarders(conn))[0].verdict == "ok"


async def test_a_new_forwarder_may_begin_now_and_one_moves_on_to_another_destination(conn, pool, tmp_path):
    await write(conn, 5)
    await seal(conn)
    await add_forwarder(conn, "siem", "https://one.example/", "json", actor=CALLER, from_now=True)
    await add_forwarder(conn, "siem", "https://two.example/", "json", actor=CALLER)
    await seal(conn)
    await sent(pool, open_destination(str(tmp_path / "a"), "json"))
    events = [orjson.loads(line) for line in (tmp_path / "a").read_bytes().splitlines()]
    assert [event["action"] for event in events] == ["AUDIT_FORWARDER_ADDED", "AUDIT_FORWARDER_EDITED"]
    moved = {"before": "https://one.example/", "after": "https://two.example/"}
    assert events[1]["meta"]["changes"] == {"destination": moved}


async def test_rows_that_were_removed_by_order_before_they_were_forwarded_are_passed(
    conn, owner, pool, installation, tmp_path
):
    await write(conn, 5)
    await seal(conn)
    await installation.sign(conn)
    await grown_old(owner, 1)
    assert await prune(owner, older_than=timedelta(days=180), actor=CALLER, key=installation.key) is not None
    await seal(conn)
    await add_forwarder(conn, "siem", "x", "json", actor=CALLER)
    await sent(pool, open_destination(str(tmp_path / "a"), "json"))
    assert numbers((tmp_path / "a").read_bytes().splitlines()) == [6]


def test_the_shapes_of_a_row():
    assert orjson.loads(as_json(ROW)) == {"number": 5, "id": 9, "epoch": 1, "seal": 3, "time": ROW.time, **EVENT}
    head, _, fields = as_cef(ROW).decode().rpartition("|6|")
    assert head.startswith("CEF:0|Atlas|Atlas|")
    assert head.endswith("|TENANT_EDITED|Tenant edited")
    assert fields.startswith(
        "rt=1794909600250 externalId=5 act=TENANT_EDITED cat=tenant suser=dana msg=a\\=b|c\\\\d\\nnext "
    )
    assert 'cs4={"name":"Ünal"}' in fields
    assert "\n" not in fields
    ocsf = orjson.loads(as_ocsf(ROW))
    assert (ocsf["class_uid"], ocsf["activity_id"], ocsf["type_uid"], ocsf["severity_id"]) == (3004, 3, 300403, 3)
    assert (ocsf["time"], ocsf["metadata"]["sequence"], ocsf["actor"]["user"]["name"]) == (1794909600250, 5, "dana")
    count, _, frame = syslog_frame(ROW, as_json(ROW)).partition(b" ")
    assert int(count) == len(frame)
    assert HEADER.fullmatch(frame)[1] == b"108"  # log audit, warning


def test_what_is_no_destination_is_refused():
    for address in ("http://example.org/", "syslog://example.org", "ftp://x", "", "https://"):
        with pytest.raises(InvalidInput, match="destination"):
            open_destination(address, "json")
    with pytest.raises(InvalidInput, match="shape: is not one of json, cef, ocsf"):
        open_destination("/tmp/x", "xml")
