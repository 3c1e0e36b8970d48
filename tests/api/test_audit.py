"""The audit log over HTTP: searched, proved, exported and verified; an export verifies without Atlas."""

import asyncio
import json
import re
import socket
from contextlib import suppress
from unittest.mock import AsyncMock, Mock
from uuid import uuid4

import asyncpg
import httpx
import pytest

import atlas.api.http.export
import atlas.api.resources.audit.verifications
from atlas.api.resources.audit.audit import MAX_NEW
from atlas.audit.keys import checkpoint_folder, key_file, public_key_file
from atlas.audit.record import Event, record
from atlas.audit.retention import new_epoch
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.audit.verifier.__main__ import main
from atlas.audit.verifier.export import verify_export
from atlas.audit.verifier.proof import check_proof
from atlas.audit.verifier.signed_notes import parse_keys
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.audit.given import replaced_key
from tests.support import DANA


@pytest.fixture
async def audit_log(world, pool, settings):
    """Events of two tenants, sealed and signed."""
    async with pool.acquire() as conn:
        for tenant in (world.acme, world.other):
            await enqueue_many(conn, [NewJob("x.work", {"n": n}, tenant.id) for n in range(30)], actor=DANA)
    await seal_and_sign(pool, settings)


@pytest.fixture
async def auditor(world):
    return world.client("all", "auditor")


async def key_of(client):
    return parse_keys((await client.get("/audit/key")).text)


async def ended(client, place):
    async with asyncio.timeout(30):
        while True:
            shown = (await client.get(place)).json()
            if shown["status"] != "running":
                return shown
            await asyncio.sleep(0.05)


async def test_the_audit_log_is_searched_by_action_actor_and_entity(audit_log, admin, world):
    async def actions(**query):
        answer = await admin.get("/audit", params=query)
        assert answer.status_code == 200, answer.text
        return [item["action"] for item in answer.json()["items"]]

    await admin.post("/hosts", json={"name": "searched"})

    assert await actions(actor_id="tenant_admin@acme") == ["HOST_ADDED"]
    assert await actions(text="searched") == ["HOST_ADDED"]
    request = (await admin.post("/jobs", json={"job_type": "x.work"})).headers["x-request-id"]
    assert await actions(text=request, entity_type="job") == ["JOB_CREATED"]
    assert await actions(text=request, actor_type="user") == ["JOB_CREATED"]
    assert await actions(text=request, actor_type="agent") == []
    people = (await world.client("all", "auditor").get("/audit", params={"actor_type": "user", "limit": 200})).json()
    assert {item["actor_type"] for item in people["items"]} == {"user"}
    assert set(await actions(action="JOB_CREATED", limit=200)) == {"JOB_CREATED"}
    assert await actions(entity_type="host", action=["HOST_ADDED", "TOKEN_ADDED"]) == ["HOST_ADDED"] * 2
    assert await actions(since="2100-01-01T00:00:00Z") == []
    assert len(await actions(until="2100-01-01T00:00:00Z", limit=5)) == 5


async def test_a_row_is_proved_to_anyone_with_the_public_key(audit_log, admin, world, conn):
    row = (await admin.get("/audit", params={"action": "JOB_CREATED", "limit": 1})).json()["items"][0]
    proof = (await admin.get(f"/audit/{row['id']}/proof")).json()
    foreign = await conn.fetchval("select max(id) from atlas.audit_log where tenant_id = $1", world.other.id)

    assert check_proof(proof, await key_of(admin)).findings == []
    assert (await admin.get(f"/audit/{foreign}/proof")).status_code == 404
    changed = json.loads(json.dumps(proof).replace("JOB_CREATED", "JOB_DELETED"))
    assert changed != proof
    assert check_proof(changed, await key_of(admin)).findings


async def test_a_row_that_is_not_sealed_yet_has_no_proof_yet(audit_log, admin, conn):
    await admin.post("/hosts", json={"name": "new"})
    row = (await admin.get("/audit", params={"action": "HOST_ADDED", "limit": 1})).json()["items"][0]

    assert (await admin.get(f"/audit/{row['id']}/proof")).status_code == 409


async def test_seals_and_checkpoints_are_for_every_reader_and_a_tenants_seals_count_its_rows(
    audit_log, auditor, admin, conn, world
):
    seals = (await auditor.get("/audit/seals")).json()["items"]
    own = (await admin.get("/audit/seals")).json()["items"]
    checkpoints = (await admin.get("/audit/checkpoints")).json()["items"]
    rows = "select count(*) from atlas.audit_log where tenant_id = $1"

    assert seals[0]["size"] == checkpoints[0]["size"]
    assert [seal["n"] for seal in seals] == sorted((seal["n"] for seal in seals), reverse=True)
    assert checkpoints[0]["note"].startswith(checkpoints[0]["key_name"].split("+")[0])
    assert sum(seal["rows"] for seal in seals) == await conn.fetchval("select count(*) from atlas.audit_log")
    assert sum(one["rows"] for one in own) == await conn.fetchval(rows, world.acme.id)
    assert {one["root"] for one in own} <= {seal["root"] for seal in seals}


async def test_each_row_names_its_seal_and_its_place_in_the_tree(audit_log, admin, world, conn, pool, settings):
    await admin.post("/hosts", json={"name": "new"})
    rows = (await admin.get("/audit", params={"limit": 200})).json()["items"]
    held = {item["n"]: item["rows"] for item in (await admin.get("/audit/seals")).json()["items"]}
    numbers = [row["seal"] for row in rows]
    foreign = await conn.fetchval("select max(id) from atlas.audit_log where tenant_id = $1", world.other.id)

    assert numbers[0] is None  # too young
    assert {n: numbers.count(n) for n in held} == held
    for row in rows[:3]:
        shown = (await admin.get(f"/audit/{row['id']}")).json()
        proof = (await admin.get(f"/audit/{row['id']}/proof")).json()
        assert shown == {**row, "index": proof.get("index")}
    assert (await admin.get(f"/audit/{foreign}")).status_code == 404
    assert (await world.client().get(f"/audit/{foreign}")).json()["id"] == foreign
    await seal_and_sign(pool, settings)
    assert (await admin.get(f"/audit/{rows[0]['id']}")).json()["seal"] == max(held) + 1


async def test_a_late_commit_is_in_the_seal_that_its_row_names(audit_log, world, pool, settings, owner):
    operator = world.client()
    async with pool.acquire() as late, late.transaction():
        await record(late, Event("LATE", "thing", "1", DANA))
        await operator.post("/hosts", json={"name": "early"}, params={"tenant": "acme"})
        await seal_and_sign(pool, settings)
    await seal_and_sign(pool, settings)
    rows = (await operator.get("/audit", params={"action": ["LATE", "HOST_ADDED"], "limit": 2})).json()["items"]
    seals = {row["action"]: row["seal"] for row in rows}

    assert seals["LATE"] == seals["HOST_ADDED"] + 1
    for row in rows:
        assert (await operator.get(f"/audit/{row['id']}")).json()["seal"] == row["seal"]


async def test_rows_are_filtered_by_level(audit_log, admin, world, pool):
    async with pool.acquire() as conn:
        await record(conn, Event("ODD", "thing", "1", DANA, world.acme.id, level="warn"))

    found = (await admin.get("/audit", params={"level": ["warn", "error"]})).json()["items"]
    assert [one["action"] for one in found] == ["ODD"]
    assert "ODD" not in [
        item["action"] for item in (await admin.get("/audit", params={"level": "info"})).json()["items"]
    ]


async def test_the_log_is_followed_without_a_gap(audit_log, admin, world, pool):
    place = (await admin.get("/audit/new")).json()["place"]

    async def new(**query):
        nonlocal place
        answer = (await admin.get("/audit/new", params={"place": place, **query})).json()
        place = answer["place"]
        return [(item["action"], item["seal"]) for item in answer["items"]], answer["is_cut"]

    async with pool.acquire() as late, late.transaction():
        await record(late, Event("LATE", "thing", "1", DANA, world.acme.id))
        await admin.post("/hosts", json={"name": "h1"})
        await world.client("other", "tenant_admin").post("/hosts", json={"name": "h1"})
        assert await new() == ([("HOST_ADDED", None)], False)
    await admin.post("/hosts", json={"name": "h2"})
    assert await new(action="LATE") == ([("LATE", None)], False)
    assert await new() == ([], False)

    async with pool.acquire() as conn:
        await enqueue_many(conn, [NewJob("x.work", {}, world.other.id) for _ in range(MAX_NEW + 1)], actor=DANA)
    assert await new() == ([], True)
    assert await new() == ([], False)
    for wrong in ("x", "1.5:3:", "1.1:2:7", "1.1:9:,", "1.1:9:5,"):
        assert (await admin.get("/audit/new", params={"place": wrong})).status_code == 422
    place = "7.1:2:"
    assert await new() == ([], True)


async def test_the_status_says_how_far_the_log_is_sealed_signed_and_verified(audit_log, admin, auditor):
    sealed = (await admin.get("/audit/status")).json()
    await admin.post("/hosts", json={"name": "new"})
    waiting = (await admin.get("/audit/status")).json()

    assert sealed["signed_size"] == sealed["size"] > 60
    assert (sealed["unsealed"], sealed["lag_seconds"], sealed["verified"]) == (0, 0, None)
    assert waiting["unsealed"] == 1
    assert waiting["lag_seconds"] > 0
    started = (await auditor.post("/audit/verifications")).json()
    await ended(auditor, f"/audit/verifications/{started['id']}")
    verified = (await admin.get("/audit/status")).json()["verified"]
    assert verified["status"] == "whole"
    assert verified["size"] > sealed["size"]


async def test_an_export_verifies_offline_and_holds_only_ones_own_rows(
    audit_log, auditor, admin, world, tmp_path, conn
):
    for client, whole in ((auditor, True), (admin, False)):
        answer = await client.get("/audit/export", headers={"X-Request-Id": f"export-{whole}"})
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert "attachment" in answer.headers["content-disposition"]
        file = tmp_path / f"{whole}.ndjson"
        file.write_bytes(answer.content)
        report = verify_export(file, await key_of(client))
        assert report.findings == []
        assert (str(world.other.id) in answer.text) == whole
        assert str(world.acme.id) in answer.text
        event = await conn.fetchrow("select * from atlas.audit_log where meta->>'request_id' = $1", f"export-{whole}")
        assert event["action"] == "AUDIT_EXPORTED"
    changed = file.read_bytes().replace(b"JOB_CREATED", b"JOB_DELETED", 1)
    file.write_bytes(changed)
    assert verify_export(file, await key_of(admin)).findings


async def test_an_export_verifies_after_a_key_rotation(audit_log, auditor, owner, settings, pool, tmp_path):
    key_file(settings).unlink()
    await new_epoch(owner, reason="the key is lost", actor=DANA)
    new = replaced_key(settings)
    await seal_and_sign(pool, settings)
    file = tmp_path / "export.ndjson"
    file.write_bytes((await auditor.get("/audit/export")).content)

    keys = await key_of(auditor)
    assert (len(keys), keys[0].label) == (2, new.label)
    assert verify_export(file, keys).findings == []
    named = tmp_path / "keys.pub"
    named.write_text((await auditor.get("/audit/key")).text)
    assert main(["--export", str(file), "--key", str(named)]) == 0


async def test_a_slow_database_is_not_reported_as_a_slow_reader(monkeypatch):
    monkeypatch.setattr(atlas.api.http.export, "log", log := Mock())

    async def lines():
        yield b"one\n"
        raise TimeoutError

    response = atlas.api.http.export.Export(b"first\n", lines(), {}, media_type="text/plain")
    with pytest.raises(TimeoutError):
        await response.stream_response(AsyncMock())
    assert not log.warning.called


def ask_and_read_nothing(server, token, room=4096):
    """An export whose reader reads nothing."""
    asked = socket.socket()
    asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    asked.connect(server.listening.getsockname())
    asked.sendall(f"GET /api/v1/audit/export HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return asked


async def grow_account(server, pool, settings, seals=1):
    """An audit log that does not fit into socket buffers; an export is sent seal by seal."""
    server.listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    for _ in range(seals):
        fields = {"tenant_id": server.world.acme.id, "correlation_id": "c" * 200}
        await enqueue_many(pool, [NewJob("x" * 200, {}, **fields) for _ in range(2000 // seals)], actor=DANA)
        await seal_and_sign(pool, settings)


@pytest.mark.long
async def test_readers_that_stop_reading_hold_no_connection(server, pool, settings, monkeypatch, opened):
    monkeypatch.setattr(atlas.api.http.export, "READ_SECONDS", 3.0)
    world = server.world
    await grow_account(server, pool, settings)

    async def client(slug, role):
        headers = world.headers(slug, role)
        return await opened(httpx.AsyncClient(base_url=f"{server.address}/api/v1", headers=headers, timeout=30))

    auditor, neighbour = await client("acme", "tenant_admin"), await client("other", "tenant_admin")
    still = [ask_and_read_nothing(server, world.tokens["acme", "auditor"]) for _ in range(15)]
    await asyncio.sleep(0.5)
    second = await auditor.get("/audit/export")

    assert second.status_code == 429
    assert second.headers["retry-after"]
    assert (await neighbour.get("/jobs")).status_code == 200
    assert (await neighbour.get("/audit/export")).status_code == 200
    async with asyncio.timeout(20):
        while (again := await auditor.get("/audit/export")).status_code == 429:
            await asyncio.sleep(0.2)
    assert again.text.splitlines()[-1] == '{"type":"end"}'
    for one in still:
        one.close()


@pytest.mark.slow
async def test_a_reader_that_reads_too_slowly_is_disconnected(server, pool, settings, monkeypatch, opened):
    monkeypatch.setattr(atlas.api.http.export, "READ_SECONDS", 3.0)
    monkeypatch.setattr(atlas.api.http.export, "MIN_RATE", 1024 * 1024)
    token = server.world.tokens["acme", "auditor"]
    await grow_account(server, pool, settings, seals=40)
    slow = ask_and_read_nothing(server, token, room=16 * 1024)
    slow.setblocking(False)
    client = httpx.AsyncClient(base_url=server.address, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    auditor = await opened(client)
    answers = []
    async with asyncio.timeout(15):
        while 200 not in answers:
            for _ in range(10):
                with suppress(BlockingIOError):
                    slow.recv(4096)
                await asyncio.sleep(0.05)
            answers.append((await auditor.get("/api/v1/audit/export")).status_code)
    slow.close()

    assert set(answers) == {200, 429}


async def test_personal_values_are_exported_by_operators_only(audit_log, operator, auditor, admin):
    for client, status in ((operator, 200), (auditor, 403), (admin, 403)):
        assert (await client.get("/audit/export", params={"personal": True})).status_code == status


async def test_a_verification_runs_in_the_background_and_reports_progress(audit_log, auditor, world, conn):
    started = await auditor.post("/audit/verifications", headers={"X-Request-Id": "verify-1"})
    assert started.status_code == 202
    assert started.json()["status"] == "running"
    shown = await ended(auditor, f"/audit/verifications/{started.json()['id']}")

    assert (shown["status"], shown["findings"], shown["started_by"]) == ("whole", [], "auditor@all")
    assert shown["done"] == shown["total"] > 60
    assert shown["report"]["rows"] >= 60
    assert (await auditor.get("/audit/verifications")).json()["items"] == [shown]
    events = await conn.fetch(
        "select action, actor_id, entity_id, meta->>'verdict' as verdict from atlas.audit_log"
        " where meta->>'request_id' = 'verify-1' order by id"
    )
    assert [tuple(event) for event in events] == [
        ("AUDIT_VERIFICATION", "auditor@all", shown["id"], None),
        ("AUDIT_VERIFIED", "auditor@all", shown["id"], "whole"),
    ]
    assert (await auditor.get(f"/audit/verifications/{uuid4()}")).status_code == 404


async def test_a_tenant_verifies_its_own_rows_and_sees_no_other_verification(audit_log, auditor, admin, world, conn):
    of_all = (await auditor.post("/audit/verifications")).json()
    await ended(auditor, f"/audit/verifications/{of_all['id']}")
    started = await admin.post("/audit/verifications", headers={"X-Request-Id": "verify-own"})
    shown = await ended(admin, f"/audit/verifications/{started.json()['id']}")

    assert (started.status_code, shown["status"], shown["findings"]) == (202, "whole", [])
    assert shown["done"] == shown["total"] == shown["report"]["rows"] > 20
    own = "select count(*) from atlas.audit_log where tenant_id = $1"
    assert shown["report"]["rows"] == await conn.fetchval(f"{own} and action <> 'AUDIT_VERIFIED'", world.acme.id)
    events = await conn.fetch("select * from atlas.audit_log where meta->>'request_id' = 'verify-own' order by id")
    assert [event["action"] for event in events] == ["AUDIT_VERIFICATION", "AUDIT_VERIFIED"]
    assert {event["tenant_id"] for event in events} == {world.acme.id}
    other, operator = world.client("other", "auditor"), world.client("all", "operator")
    for client, query, found in (
        (admin, {}, [shown]),
        (other, {}, []),
        (operator, {"tenant": "acme"}, [shown]),
        (operator, {}, [(await operator.get(f"/audit/verifications/{of_all['id']}")).json()]),
    ):
        assert (await client.get("/audit/verifications", params=query)).json()["items"] == found
    for client, id in ((other, shown["id"]), (admin, of_all["id"]), (operator, shown["id"])):
        assert (await client.get(f"/audit/verifications/{id}")).status_code == 404
    assert (await admin.get("/audit/status")).json()["verified"]["status"] == "whole"


async def test_a_tenant_finds_its_changed_and_removed_rows(audit_log, admin, world, owner):
    await owner.execute("alter table atlas.audit_log disable trigger all")
    row = "(select min(id) from atlas.audit_log where tenant_id = $1 and action = 'JOB_CREATED')"
    await owner.execute(f"update atlas.audit_log set body = body || ' ' where id = {row}", world.acme.id)
    gone = "(select id from atlas.audit_log where tenant_id = $1 order by epoch desc, xid desc, id desc limit 1)"
    await owner.execute(f"delete from atlas.audit_log where id = {gone}", world.acme.id)
    started = (await admin.post("/audit/verifications")).json()
    shown = await ended(admin, f"/audit/verifications/{started['id']}")

    assert shown["status"] == "damaged"
    messages = " ".join(finding["message"] for finding in shown["findings"])
    assert "is not in the signed tree" in messages
    assert re.search(r"The tenant's number \d+ is missing", messages)


async def test_a_verification_finds_changed_rows(audit_log, auditor, owner):
    triggers = [
        row["tgname"]
        for row in await owner.fetch(
            "select tgname from pg_trigger where tgrelid = 'atlas.audit_log'::regclass and not tgisinternal"
        )
    ]
    for name in triggers:
        await owner.execute(f'alter table atlas.audit_log disable trigger "{name}"')
    await owner.execute(
        "update atlas.audit_log set message = 'changed' where id = (select min(id) from atlas.audit_log)"
    )
    started = (await auditor.post("/audit/verifications")).json()
    shown = await ended(auditor, f"/audit/verifications/{started['id']}")

    assert shown["status"] == "damaged"
    assert shown["findings"]


async def test_a_verification_of_a_truncated_audit_log_reports_what_is_missing(audit_log, auditor, owner):
    for table in ("audit_log", "audit_seal", "audit_seal_tenant", "audit_checkpoint"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
        await owner.execute(f"delete from atlas.{table}")
    started = (await auditor.post("/audit/verifications")).json()
    shown = await ended(auditor, f"/audit/verifications/{started['id']}")

    assert shown["status"] == "damaged"
    assert {"signer", "cut"} <= {finding["kind"] for finding in shown["findings"]}


async def test_an_api_without_the_key_creates_none_and_verifies_with_the_public_one(audit_log, auditor, settings, conn):
    key_file(settings).unlink()
    signed = await conn.fetchval("select count(*) from atlas.audit_checkpoint")
    started = (await auditor.post("/audit/verifications")).json()
    shown = await ended(auditor, f"/audit/verifications/{started['id']}")
    assert (shown["status"], shown["findings"]) == ("whole", [])
    assert await conn.fetchval("select count(*) from atlas.audit_checkpoint") == signed

    assert (await auditor.get("/audit/key")).text == public_key_file(settings).read_text()
    public_key_file(settings).unlink()
    answer = await auditor.get("/audit/key")
    assert answer.status_code == 404
    assert "no public key on this machine" in answer.text
    started = (await auditor.post("/audit/verifications")).json()
    shown = await ended(auditor, f"/audit/verifications/{started['id']}")
    assert (shown["status"], "cannot be read" in shown["notices"][0]) == ("failed", True)
    assert not key_file(settings).exists()


async def test_one_verification_runs_at_a_time_and_one_that_raises_has_failed(audit_log, auditor, monkeypatch):
    go = asyncio.Event()

    async def broken(*_, **__):
        await go.wait()
        raise asyncpg.AdminShutdownError("the server restarts")

    monkeypatch.setattr(atlas.api.resources.audit.verifications, "verify", broken)
    first, *others = [await auditor.post("/audit/verifications") for _ in range(3)]
    go.set()
    shown = await ended(auditor, f"/audit/verifications/{first.json()['id']}")
    monkeypatch.undo()
    again = await auditor.post("/audit/verifications")

    assert [other.status_code for other in others] == [429] * 2
    assert shown["status"] == "failed"
    assert "AdminShutdownError" in shown["notices"][0]
    assert (await ended(auditor, f"/audit/verifications/{again.json()['id']}"))["status"] == "whole"


async def test_a_verification_whose_report_failed_once_reports_again(audit_log, auditor, world, monkeypatch):
    go, received = asyncio.Event(), []
    keep, verify = (
        atlas.api.resources.audit.verifications._Verification.keep,
        atlas.api.resources.audit.verifications.verify,
    )

    async def keeping(self, conn):
        received.append(conn)
        if len(received) == 2:
            conn.terminate()
        await keep(self, conn)

    async def slow(*arguments, **options):
        await go.wait()
        return await verify(*arguments, **options)

    monkeypatch.setattr(atlas.api.resources.audit.verifications, "REPORT_SECONDS", 0.1)
    monkeypatch.setattr(atlas.api.resources.audit.verifications._Verification, "keep", keeping)
    monkeypatch.setattr(atlas.api.resources.audit.verifications, "verify", slow)
    started = (await auditor.post("/audit/verifications")).json()
    async with asyncio.timeout(10):
        while len(received) < 4:
            await asyncio.sleep(0.05)
    go.set()
    assert (await ended(auditor, f"/audit/verifications/{started['id']}"))["status"] == "whole"


async def test_shutdown_does_not_wait_for_the_result_of_a_verification(audit_log, auditor, world, monkeypatch):
    begun = asyncio.Event()

    async def endless(*_, **__):
        begun.set()
        await asyncio.Event().wait()

    async def away(*_):
        raise OSError("the database is away")

    monkeypatch.setattr(atlas.api.resources.audit.verifications, "verify", endless)
    await auditor.post("/audit/verifications")
    await begun.wait()
    monkeypatch.setattr(atlas.api.resources.audit.verifications._Verification, "keep", away)
    async with asyncio.timeout(5):
        await world.app.state.background.stop()


async def test_a_verification_knows_the_key_before_the_one_that_signs(audit_log, auditor, settings, owner, pool):
    key_file(settings).unlink()
    replaced_key(settings)
    await new_epoch(owner, reason="the key is lost", actor=DANA)
    await seal_and_sign(pool, settings)
    started = (await auditor.post("/audit/verifications")).json()
    shown = await ended(auditor, f"/audit/verifications/{started['id']}")
    assert (shown["status"], shown["findings"]) == ("whole", [])


async def test_a_verification_says_which_copy_it_cannot_read(audit_log, auditor, settings):
    folder = checkpoint_folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "9999-01-01.checkpoints").write_bytes(b"\xff\xfe")
    started = (await auditor.post("/audit/verifications")).json()
    shown = await ended(auditor, f"/audit/verifications/{started['id']}")
    assert shown["status"] == "failed"
    assert "Copies of checkpoints cannot be read" in shown["notices"][0]


async def test_a_verification_whose_process_is_gone_is_lost(audit_log, auditor, conn):
    id = uuid4()
    value = json.dumps({"status": "running", "done": 5, "total": 10, "started_by": "dana"})
    await conn.execute(
        "insert into atlas.system_state (key, value, updated_by, updated_at) values ($1, $2, 'dana', now() - interval '1 minute')",
        f"verification:{id}",
        value,
    )

    shown = (await auditor.get(f"/audit/verifications/{id}")).json()
    assert (shown["status"], shown["done"]) == ("lost", 5)
