"""Backups of history: a part that did not change is reused, and a backup that is killed costs no other one anything."""

import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, create_subprocess_exec

import orjson
import pytest

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.cli.backup.history import PartFiles, dump_history, open_snapshot
from atlas.cli.backup.manifest import Manifest
from atlas.db.pool import connect
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.switches.gate import switch
from atlas.postgres.cluster import start_embedded
from atlas.settings import load_settings
from tests.cli.conftest import environment
from tests.engine.retention.test_history import file_all, given_failure, given_success, places
from tests.engine.retention.test_retention import age, old
from tests.support import DANA

ROWS = """
select c.relname::text as place, j::text as row from atlas.jobs j join pg_class c on c.oid = j.tableoid
union all
select c.relname::text, a::text from atlas.job_attempts a join pg_class c on c.oid = a.tableoid
order by 1, 2"""
WAITS = "select count(*) from pg_locks where not granted and relation = $1::regclass"


async def given_two_days(conn, pool) -> dict:
    """A failed and a succeeded job on each of two days of history; returns the jobs by their table."""
    await switch(conn, online=True, actor=DANA)
    for _ in range(2):
        await given_failure(conn)
        await given_success(conn, id=old())
        await age(conn, days=1)
    assert await file_all(pool) == 4
    jobs: dict = {}
    for job, place in (await places(conn)).items():
        jobs.setdefault(place, []).append(job)
    assert [len(ids) for ids in jobs.values()] == [2, 2]
    return jobs


def part_of(place: str) -> str:
    return f"history/{place.removeprefix('jobs_history_')}.dump"


@pytest.mark.long
async def test_a_backup_reads_the_parts_of_history_that_changed_and_is_restored_without_its_base(
    atlas, conn, pool, tmp_path, database_url
):
    jobs = await given_two_days(conn, pool)
    (kept, _), (changed, [gone, _]) = jobs.items()
    await seal_and_sign(pool, load_settings(atlas_home=tmp_path / "home", database_url=database_url))
    assert (await atlas("backup", str(tmp_path / "first"))).code == 0
    await delete(conn, gone, actor=DANA)
    made = await atlas("backup", str(tmp_path / "second"), "--base", str(tmp_path / "first"), "--json")
    assert made.code == 0, made
    assert made.document["reused"] == [part_of(kept)]
    files = [tmp_path / backup / part_of(kept) for backup in ("first", "second")]
    assert files[0].samefile(files[1])
    rows = await conn.fetch(ROWS)
    meta = orjson.loads(await conn.fetchval("select meta from atlas.audit_log order by id desc limit 1"))
    assert (meta["parts"], meta["parts_reused"]) == (2, 1)

    shutil.rmtree(tmp_path / "first")
    elsewhere = {"DATABASE_URL": None, "ATLAS_HOME": str(tmp_path / "new")}
    restored = await atlas("restore", str(tmp_path / "second"), **elsewhere)
    assert restored.code == 0, restored
    assert (await atlas("audit", "verify", "--state", **elsewhere)).code == 0
    server = await start_embedded(tmp_path / "new")
    there = await connect(server.url())
    assert await there.fetch(ROWS) == rows
    await there.close()
    server.release()
    # The restored database has the parts as the backup has them.
    again = await atlas("backup", str(tmp_path / "third"), "--base", str(tmp_path / "second"), "--json", **elsewhere)
    assert again.document["reused"] == sorted(map(part_of, (kept, changed)))


async def test_a_part_that_changes_while_others_are_dumped_is_dumped_again_with_the_database(
    conn, pool, tmp_path, database_url
):
    jobs = await given_two_days(conn, pool)
    (kept, _), (changed, [gone, _]) = jobs.items()
    files = PartFiles(tmp_path, None)
    await dump_history(database_url, files, lambda _: None)
    async with open_snapshot(database_url) as snapshot:
        assert list(files.missing(snapshot.parts)) == []
        await delete(conn, gone, actor=DANA)
    async with open_snapshot(database_url) as snapshot:
        assert [part.file for part in files.missing(snapshot.parts)] == [part_of(changed)]
        files.forget_all_but([part for part in snapshot.parts if part.file == part_of(kept)])
    assert [f"history/{path.name}" for path in (tmp_path / "history").iterdir()] == [part_of(kept)]


@pytest.mark.long
@pytest.mark.parametrize("table", ["part", "job_types"])
async def test_a_backup_that_is_killed_leaves_its_base_as_it_was(
    atlas, conn, pool, owner, tmp_path, database_url, table
):
    """Once while it dumps a part of history, once while it dumps everything else."""
    jobs = await given_two_days(conn, pool)
    changed, [gone, _] = list(jobs.items())[-1]
    base, folder = tmp_path / "base", tmp_path / "next"
    assert (await atlas("backup", str(base))).code == 0
    await delete(conn, gone, actor=DANA)
    waits_for = f"atlas.{changed if table == 'part' else table}"
    command = ["-m", "atlas.cli.main", "backup", str(folder), "--base", str(base)]
    async with owner.transaction():
        await owner.execute(f"lock table only {waits_for} in access exclusive mode")
        env = environment(tmp_path / "home", DATABASE_URL=database_url)
        killed = await create_subprocess_exec(
            sys.executable, "-P", *command, env=env, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
        )
        while not await conn.fetchval(WAITS, waits_for):
            assert killed.returncode is None
        os.killpg(killed.pid, signal.SIGKILL)
        await killed.wait()
    assert not folder.exists()
    assert len(Manifest.read(base).history) == 2
    made = await atlas(*command[2:], "--json")
    assert made.code == 0, made
    assert len(made.document["reused"]) == 1
    assert not list(tmp_path.glob("*.incomplete"))
    Manifest.read(base)
    Manifest.read(folder)
