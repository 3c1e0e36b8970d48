"""`atlas worker`: runs the handlers of an app until it is stopped or the queue is empty."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

import atlas.cli.programs.long_running
from atlas.db.pool import Pool, open_pool
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from tests.cli.conftest import environment
from tests.support import ALICE, until

APP = """
from pathlib import Path
from unittest.mock import Mock
from atlas import JobContext, job

@job("note.write")
async def write(input: dict, ctx: JobContext) -> None:
    Path(input["file"]).write_text(input["words"])
"""


@pytest.fixture
async def pool(database_url: str):
    """A pool on the very database that the command uses."""
    pool = await open_pool(database_url, size=2)
    yield pool
    await pool.close()


@pytest.fixture
async def conn(pool: Pool, tmp_path: Path):
    """An Atlas that is online, beside a folder that holds an app."""
    (tmp_path / "notes.py").write_text(APP)
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ALICE)
        yield conn


async def ask_for_a_note(conn, file: Path) -> None:
    await enqueue(
        conn, NewJob("note.write", {"file": str(file), "words": "done"}, tenant_id=SYSTEM_TENANT), actor=ALICE
    )


@pytest.mark.long
@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_drain_runs_what_is_due_and_ends(atlas, conn, tmp_path, processes):
    for number in range(3):
        await ask_for_a_note(conn, tmp_path / f"note-{number}")

    ran = await atlas("worker", "--all", "--app", "notes", "--drain", "--processes", processes, "--json")

    assert ran.code == 0, ran.stderr
    assert ran.document == ({"finished": 3} if processes == "1" else {"processes": 2, "status": 0})
    assert [(tmp_path / f"note-{number}").read_text() for number in range(3)] == ["done"] * 3


async def test_a_drain_while_offline_is_refused_with_the_reason(atlas, conn, tmp_path):
    await switch(conn, online=False, actor=ALICE, reason="new disks")
    await ask_for_a_note(conn, tmp_path / "note")

    ran = await atlas("worker", "--types", "note.write", "--app", "notes", "--drain", ATLAS_LOG_LEVEL="warning")

    assert "Atlas is offline since" in ran.refusal
    assert "by alice: new disks." in ran.refusal
    assert not (tmp_path / "note").exists()


@pytest.mark.long
async def test_a_running_worker_picks_up_work_and_stops_cleanly(conn, tmp_path, database_url):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", "worker", "--all", "--app", "notes", "--json"),
        cwd=tmp_path,
        env=environment(tmp_path / "home", DATABASE_URL=database_url, ATLAS_ALIVE_FILE=str(tmp_path / "alive")),
        stdout=asyncio.subprocess.PIPE,
    )
    await ask_for_a_note(conn, tmp_path / "note")
    await until((tmp_path / "note").exists)
    assert (tmp_path / "alive").exists()
    process.send_signal(signal.SIGTERM)
    out, _ = await process.communicate()

    assert process.returncode == 0
    assert b'"finished": 1' in out
    assert await conn.fetchval("select count(*) from atlas.job_workers where dead_at is null") == 0


async def test_the_file_for_probes_is_touched_again_and_again_and_one_that_cannot_be_is_a_warning(
    tmp_path, monkeypatch
):
    # Not by its output: another test may have chosen a level of the logs for this process.
    warned = Mock()
    monkeypatch.setattr(atlas.cli.programs.long_running, "log", warned)
    monkeypatch.setattr(atlas.cli.programs.long_running, "ALIVE_SECONDS", 0.01)
    file = tmp_path / "folder" / "alive"
    touching = asyncio.create_task(atlas.cli.programs.long_running._show_life(file))
    await asyncio.sleep(0.05)
    file.parent.mkdir()
    await until(file.exists)
    os.utime(file, (0, 0))
    await until(lambda: file.stat().st_mtime > 0)
    touching.cancel()

    [call] = warned.warning.call_args_list
    assert call.args == ("ATLAS_ALIVE_FILE cannot be written",)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("--types", "note.burn", "--app", "notes"), "There is no handler for note.burn. Give the module"),
        (("--types", ",", "--app", "notes"), "No job type was given."),
        (("--all", "--app", "missing"), "The module 'missing' of --app cannot be imported"),
    ],
)
async def test_a_worker_without_its_handlers_is_refused(atlas, conn, arguments, cause):
    assert cause in (await atlas("worker", *arguments)).refusal


async def test_neither_types_nor_all_is_wrong_usage(atlas):
    assert (await atlas("worker")).code == 2
    assert (await atlas("worker", "--all", "--types", "x")).code == 2
    assert (await atlas("worker", "--types", "x", "--except", "y")).code == 2


@pytest.mark.long
async def test_a_worker_for_all_leaves_what_it_excepts_to_others(atlas, conn, tmp_path):
    await ask_for_a_note(conn, tmp_path / "note")
    others = ("--all", "--app", "notes", "--drain", "--json", "--except")

    left = await atlas("worker", *others, "note.write, ENGINE_RUN")
    unknown = await atlas("worker", *others, "note.wirte")
    done = await atlas("worker", *others, "EMAIL_SEND,ENGINE_RUN")

    assert (left.document, done.document) == ({"finished": 0}, {"finished": 1})
    assert unknown.document["error"]["message"] == "There is no handler for note.wirte."
    served = await conn.fetch("select job_types from atlas.job_workers order by started_at")
    assert [{"EMAIL_SEND", "ENGINE_RUN", "note.write"} - set(row["job_types"]) for row in served] == [
        {"ENGINE_RUN", "note.write"},
        {"EMAIL_SEND", "ENGINE_RUN"},
    ]


@pytest.mark.parametrize("program", [("worker", "--types", "EMAIL_SEND"), ("up", "--port", "1")])
async def test_a_mail_provider_without_its_settings_is_refused_at_start(atlas, program):
    ran = await atlas(*program, OUTBOUND_EMAIL_PROVIDER="outbox,resend", RESEND_API_KEY=None)
    assert ran.code == 1
    assert "OUTBOUND_EMAIL_PROVIDER names resend, which needs RESEND_API_KEY." in ran.stderr
    ran = await atlas(*program, MS_AUTHORITY_URL="http://login.example.com")
    assert "MS_AUTHORITY_URL cannot be used: must start with https://" in ran.refusal
