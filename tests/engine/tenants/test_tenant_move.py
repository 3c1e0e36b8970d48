"""Moving a tenant to another installation: nothing is lost, nothing is doubled, and its audit log stays provable."""

import zipfile
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import orjson
import pytest

from atlas.actors import Actor
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.crosscheck import cross_check
from atlas.audit.verification.verify import verify
from atlas.audit.verification.verify_tenant import verify_tenant
from atlas.db.pool import open_pool
from atlas.engine.hosts.hosts import add_host
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.switches.pauses import list_pauses, pause, resume
from atlas.engine.schedules.recurring import save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs
from atlas.engine.tenants.move import begin_move, cancel_move, record_export
from atlas.engine.tenants.move_export import TenantFileWriter
from atlas.engine.tenants.move_import import TenantImport, UnusableFile
from atlas.engine.tenants.removal import begin_removal, continue_removal
from atlas.engine.tenants.tenants import edit_tenant, find_tenant
from atlas.engine.workflows.approvals import decide_approval, expire_approvals
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.intents import request_workflow, take_intents
from atlas.errors import Conflict, NotFound, Refused, TenantMoved
from tests.audit.given import Installation, kinds
from tests.engine.given import given_full_tenant, rows_of
from tests.support import DANA

# What stays with the installation, or is made anew there.
LEFT = {"audit_log", "audit_seal_tenant", "audit_moved", "limit_events", "tenant_shares"}


class Cell:
    """An installation: a database, and what it keeps outside of it."""

    def __init__(self, conn, home):
        self.conn = conn
        self.installation = Installation(home)

    async def seal(self):
        await seal(self.conn)
        await self.installation.sign(self.conn)

    async def export(self, tenant, path, **options):
        steps = [step async for step in begin_move(self.conn, tenant, actor=DANA, **options)]
        writer = TenantFileWriter(self.conn, tenant, [self.installation.key.public], lambda *_: None)
        done = await writer.write(path, self.seal)
        await record_export(self.conn, tenant, actor=DANA, facts={"digest": done.digest})
        return done, steps

    async def bring_in(self, path, *, keys=(), secret_keys=("k",)):
        opened = TenantImport(path, lambda *_: None)
        opened.check(keys)
        known = [*secret_keys, *opened.manifest.secret_keys]
        return await opened.run(self.conn, actor=DANA, secret_keys=known)

    async def findings(self):
        await self.seal()
        report = await verify(self.conn, self.installation.keys, self.installation.notes)
        return kinds(report), await cross_check(self.conn)


@pytest.fixture
async def cells(conn, databases, tmp_path):
    """Two installations: the one that a tenant leaves, and the one that it comes to."""
    async with databases.database() as url:
        pool = await open_pool(url, size=3)
        async with pool.acquire() as other:
            await switch(other, online=True, actor=DANA)
            yield Cell(conn, tmp_path / "old"), Cell(other, tmp_path / "new")
        await pool.close()


async def test_everything_of_a_tenant_arrives_with_its_provable_audit_log(cells, tmp_path):
    old, new = cells
    acme = await given_full_tenant(old.conn)
    await given_full_tenant(old.conn, "other")
    await given_full_tenant(new.conn, "third")
    done, _ = await old.export(acme, tmp_path / "acme.zip", to="https://new.example", reason="more room")
    assert await old.findings() == (set(), [])
    had = await rows_of(old.conn, acme.id)

    arrived = await new.bring_in(tmp_path / "acme.zip", keys=old.installation.keys)
    assert (arrived.id, arrived.slug, arrived.moving_at) == (acme.id, "acme", None)
    has = await rows_of(new.conn, acme.id)
    assert {name: count for name, count in has.items() if name not in LEFT} == {
        name: count for name, count in had.items() if name not in LEFT
    }
    paused = await list_pauses(new.conn, tenant_id=acme.id)
    assert [(one.kind, one.name) for one in paused] == [("trigger", None), ("tenant", "acme")]
    assert await new.findings() == (set(), [])

    report = await verify_tenant(new.conn, acme.id, new.installation.keys)
    own = await new.conn.fetchval("select count(*) from atlas.audit_log where tenant_id = $1", acme.id)
    assert report.ok
    assert report.rows == own + done.manifest.audit[-1].rows
    event = await new.conn.fetchval("select meta from atlas.audit_log where action = 'TENANT_IMPORTED'")
    assert orjson.loads(event)["digest"] == done.digest


@pytest.mark.long
async def test_nothing_of_a_tenant_that_moves_changes_where_it_was(cells, tmp_path):
    old, _ = cells
    conn = old.conn
    acme = await given_full_tenant(conn)
    await conn.execute("update atlas.jobs set start_by = now() - interval '1 h' where status = 'queued'")
    await conn.execute("update atlas.approvals set expires_at = now() - interval '1 h' where status = 'pending'")
    await conn.execute("update atlas.job_triggers set next_fire_at = now() - interval '1 h' where is_enabled")
    await conn.execute("update atlas.recurring_jobs set next_run_at = now() - interval '1 h'")
    # A sweep makes a retry ready when it falls due, of which nobody sees anything.
    retries = "update atlas.jobs set next_retry_at = now() + interval '1 h' where status = 'queued' and retry_count > 0"
    assert await conn.execute(retries) == "UPDATE 1"
    await publish_event(conn, acme.id, "order.paid", {}, actor=DANA)
    await request_workflow(conn, acme.id, "a", {}, DANA, allow_unknown=True)
    await old.export(acme, tmp_path / "acme.zip", to="https://new.example")
    before = await rows_of(conn, acme.id), await states(conn)

    refused = [
        lambda: enqueue(conn, NewJob("t", {}, acme.id), actor=DANA),
        lambda: enqueue_many(conn, [NewJob("t", {}, acme.id)] * 2, actor=DANA),
        lambda: publish_event(conn, acme.id, "order.paid", {}, actor=DANA),
        lambda: pause(conn, "tenant", "acme", actor=DANA),
        lambda: request_workflow(conn, acme.id, "a", {}, DANA, allow_unknown=True),
        lambda: save_recurring(conn, (acme.id, "new"), start_at=datetime.now(UTC), repeat_every=timedelta(hours=1)),
        lambda: add_host(conn, tenant_id=acme.id, name="more", actor=DANA),
        lambda: edit_tenant(conn, acme, {"name": "Acme Ltd"}, actor=DANA),
    ]
    for act in refused:
        with pytest.raises(TenantMoved, match="Use https://new.example") as told:
            await act()
        assert told.value.to == "https://new.example"
    [held] = [pause for pause in await list_pauses(conn) if pause.kind == "tenant"]
    with pytest.raises(TenantMoved):
        await resume(conn, held.id, actor=DANA)
    with pytest.raises(asyncpg.PostgresError, match="moves to another installation"):
        await conn.execute("select atlas.enqueue('acme', 't', '{}', allow_unknown => true)")
    queued = await conn.fetchval("select id from atlas.jobs where status = 'queued' and tenant_id = $1", acme.id)
    failed = await conn.fetchval("select id from atlas.jobs where status = 'failed' and tenant_id = $1", acme.id)
    approval = await conn.fetchval("select id from atlas.approvals where status = 'pending'")
    for act in (
        cancel(conn, queued, actor=DANA),
        delete(conn, failed, actor=DANA),
        retry_now(conn, failed, actor=DANA),
    ):
        with pytest.raises(NotFound):
            await act
    with pytest.raises(NotFound):
        await decide_approval(conn, approval, approve=True, actor=Actor("user", "eve"))
    await sweep(conn)
    await expire_approvals(conn)
    await take_intents(conn, "engine")
    assert await claim_runs(conn, "w", [(acme.id, "tidy")], lease=60) == []
    assert await conn.fetchval("select atlas.expire_jobs(10, true)") == 0
    rows, were = before
    # What a claim left is taken by the next sweep.
    assert await rows_of(conn, acme.id) | {"limit_events": 0} == rows | {"limit_events": 0}
    for now, then in zip(await states(conn), were, strict=True):
        assert now == then


async def states(conn):
    """What a change of a job, an approval or a request would show in."""
    return [
        await conn.fetch(f"select * from atlas.{table} order by id")
        for table in ("jobs", "approvals", "intents", "job_triggers", "events")
    ]


@pytest.mark.long
async def test_a_canceled_move_lets_the_tenant_go_on_and_a_repeated_export_is_the_same(cells, tmp_path):
    old, _ = cells
    acme = await given_full_tenant(old.conn)
    first, _ = await old.export(acme, tmp_path / "one.zip")
    again, _ = await old.export(await find_tenant(old.conn, acme.id), tmp_path / "two.zip")
    assert again.manifest.tables == first.manifest.tables
    canceled = await cancel_move(old.conn, acme, actor=DANA, reason="not today")
    assert canceled.moving_at is None
    with pytest.raises(Conflict, match="is not being moved"):
        await cancel_move(old.conn, acme, actor=DANA)
    [held] = [pause for pause in await list_pauses(old.conn) if pause.kind == "tenant"]
    await resume(old.conn, held.id, actor=DANA)
    await enqueue(old.conn, NewJob("t", {}, acme.id), actor=DANA)
    assert await old.findings() == (set(), [])
    with pytest.raises(Refused):
        await old.export(await find_tenant(old.conn, SYSTEM_TENANT), tmp_path / "system.zip")


@pytest.mark.long
async def test_a_moved_tenant_is_removed_without_canceling_what_goes_on_elsewhere_and_comes_back(
    cells, owner, tmp_path
):
    old, new = cells
    acme = await given_full_tenant(old.conn)
    await old.export(acme, tmp_path / "acme.zip")
    await new.bring_in(tmp_path / "acme.zip")
    canceled = "select count(*) from atlas.audit_log where action = 'JOB_CANCELED'"
    before = await old.conn.fetchval(canceled)

    @asynccontextmanager
    async def transaction():
        async with old.conn.transaction():
            yield old.conn

    await begin_removal(old.conn, await find_tenant(old.conn, acme.id), actor=DANA)
    async for _ in continue_removal(transaction, acme.id, actor=DANA):
        pass
    assert await old.conn.fetchval(canceled) == before
    left = await rows_of(old.conn, acme.id)
    assert {table for table, count in left.items() if count} == {"audit_log", "audit_seal_tenant"}
    assert await old.findings() == (set(), [])
    assert await new.conn.fetchval("select count(*) from atlas.jobs where status = 'queued'") > 0

    # And back again, with what it brought along.
    done, _ = await new.export(await find_tenant(new.conn, acme.id), tmp_path / "back.zip")
    await old.bring_in(tmp_path / "back.zip", keys=new.installation.keys)
    assert await old.findings() == (set(), [])
    assert [part.number for part in done.manifest.audit] == [1, 2]
    report = await verify_tenant(old.conn, acme.id, old.installation.keys)
    own = await old.conn.fetchval("select count(*) from atlas.audit_log where tenant_id = $1", acme.id)
    assert report.ok
    assert report.rows == own + sum(part.rows for part in done.manifest.audit)

    await owner.execute(
        "alter table atlas.audit_moved disable trigger all; delete from atlas.audit_moved where part = 2"
    )
    broken = await verify(old.conn, old.installation.keys, old.installation.notes)
    assert kinds(broken) == {"row"}
    assert all(
        f"Part 2 of the audit log that tenant {acme.id} brought" in finding.message for finding in broken.findings
    )


@pytest.mark.long
async def test_a_file_that_was_changed_or_does_not_fit_is_refused_and_leaves_nothing(cells, tmp_path):
    old, new = cells
    acme = await given_full_tenant(old.conn)
    path = tmp_path / "acme.zip"
    await old.export(acme, path)
    other = Installation(tmp_path / "elsewhere")
    with pytest.raises(UnusableFile, match="does not verify"):
        await new.bring_in(path, keys=other.keys)
    with pytest.raises(Conflict, match="encrypted with the key"):
        opened = TenantImport(path, lambda *_: None)
        await opened.run(new.conn, actor=DANA, secret_keys=[])
    changes = {
        "rows/jobs.jsonl": (b'"stopped"', b'"started"'),
        "audit-log/1.jsonl": (b"JOB_CREATED", b"JOB_REMOVED"),
        "manifest.json": (b"atlas-tenant/1", b"atlas-tenant/9"),
    }
    for name, (before, after) in changes.items():
        changed = rewritten(path, tmp_path / "changed.zip", name, before, after)
        with pytest.raises(UnusableFile):
            await new.bring_in(changed)
    with pytest.raises(UnusableFile, match="cannot be read"):
        (tmp_path / "cut.zip").write_bytes(path.read_bytes()[:-500])
        await new.bring_in(tmp_path / "cut.zip")
    newer = rewritten(path, tmp_path / "newer.zip", "manifest.json", b'"dedupe_key",', b'"dedupe_key", "colour",')
    with pytest.raises(UnusableFile, match="from a newer Atlas"):
        await TenantImport(newer, lambda *_: None).run(new.conn, actor=DANA, secret_keys=["k"])
    assert sum((await rows_of(new.conn, acme.id)).values()) == 0

    await new.bring_in(path)
    with pytest.raises(Conflict, match="is here already"):
        await new.bring_in(path)


def rewritten(path, target, name, before, after):
    """The same file with other bytes in one of its members."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.namelist():
            text = old.read(member)
            assert member != name or before in text
            new.writestr(member, text.replace(before, after, 1) if member == name else text)
    return target
