"""The commands that go over HTTP when ATLAS_URL is set: the same words and documents as on the database."""

import asyncio
import contextlib
import io
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from atlas.cli.main import main
from atlas.db.failures import public_url
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lease import register_worker
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.workflows.intents import request_workflow
from atlas.home.up_report import OPERATOR_TOKEN, reporting
from tests.api.conftest import quiet, server, settings
from tests.cli.conftest import MAKE_GUEST, Ran, as_guest
from tests.support import DANA, given_review

__all__ = ["quiet", "server", "settings"]

Ask = Callable[..., Awaitable[Ran]]


def run_here(arguments: tuple[str, ...], settings: dict[str, str | None]) -> Ran:
    """The command in this process: everything but the start of an interpreter, which other tests of commands show."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["atlas", *arguments])
        for name, value in settings.items():
            patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


@pytest.fixture
def atlas(tmp_path: Path, database_url: str, known_types: None, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """A machine that has the database."""
    monkeypatch.chdir(tmp_path)
    # The server writes its log in this process, too.
    known = {"ATLAS_HOME": str(tmp_path / "home"), "DATABASE_URL": database_url, "ATLAS_LOG_LEVEL": "error"}
    others = dict.fromkeys(("ATLAS_URL", "ATLAS_TOKEN", "ATLAS_OPERATOR_TOKEN"))

    async def call(*arguments: str, **changes: str | None) -> Ran:
        return await asyncio.to_thread(run_here, arguments, {**others, **known, **changes})

    return call


@pytest.fixture
def remote(atlas: Ask, server: Any) -> Ask:
    """A machine that knows the API's address and an operator's token, and has no database."""
    token = server.world.tokens["all", "operator"]
    known = {"DATABASE_URL": None, "ATLAS_URL": server.address, "ATLAS_TOKEN": token}

    async def call(*arguments: str, **changes: str | None) -> Ran:
        return await atlas(*arguments, **{**known, **changes})

    return call


def shape(document: Any) -> Any:
    """The names and kinds of a document, without its values."""
    match document:
        case dict():
            return {name: shape(value) for name, value in document.items()}
        case list():
            return [shape(document[0])] if document else []
        case _:
            return None if document is None else type(document).__name__


async def both(atlas: Ask, remote: Ask, *arguments: str) -> tuple[Any, Any]:
    return (await atlas(*arguments, "--json")).document, (await remote(*arguments, "--json")).document


async def test_a_job_is_made_and_steered_over_http_with_the_documents_of_the_database(atlas, remote):
    options = ("--tenant", "acme", "--input", '{"month": 3}', "--priority", "7", "--delay", "10m", "--dedupe-key")
    here = (await atlas("enqueue", "report.build", *options, "here", "--json")).document
    there = (await remote("enqueue", "report.build", *options, "there", "--json")).document
    assert shape(there) == shape(here)
    listed, same_list = await both(atlas, remote, "jobs", "list", "--tenant", "acme", "--status", "waiting")
    one, same = await both(atlas, remote, "jobs", "show", there["id"])
    received, same_told = await both(atlas, remote, "jobs", "explain", there["id"])
    assert (same, same_list, same_told) == (one, listed, received)
    assert (await atlas("jobs", "show", there["id"])).stdout == (await remote("jobs", "show", there["id"])).stdout
    assert (same["job"]["input"], same["job"]["status"]) == ({"month": 3}, "queued")
    assert (same["job"]["shown_status"], same["explanation"]["reason"]) == ("waiting", "not_due")
    assert {job["id"] for job in same_list["jobs"]} == {there["id"], here["id"]}
    assert {job["tenant"] for job in same_list["jobs"]} == {"acme"}
    assert (await remote("jobs", "explain", there["id"][:35], "--json")).document == received
    assert f"{here['id']}, {there['id']}" in (await remote("jobs", "explain", there["id"][:4])).refusal

    id = there["id"]
    assert (await remote("jobs", "cancel", id, "--json")).document == {"id": id, "verdict": "canceled"}
    assert "has already finished" in (await remote("jobs", "cancel", id)).refusal
    assert (await remote("jobs", "retry", "--dead-letters")).stdout == "Jobs to retry: 0.\n"
    assert (await remote("jobs", "retry", id, "--json")).document == {"id": id, "verdict": "retried"}
    assert (await remote("jobs", "delete", id, "--json")).document == {"id": id, "deleted": True}
    gone = await remote("jobs", "explain", id, "--json")
    assert (gone.code, gone.document["error"]["type"]) == (1, "NotFound")
    assert gone.stderr == f"error: There is no job {id}.\n"


async def test_a_list_that_goes_on_says_how_to_see_the_rest(atlas, remote, server, conn):
    jobs = [await enqueue(conn, NewJob("x.work", {}, server.world.acme.id), actor=DANA) for _ in range(3)]
    for ask in (atlas, remote):
        assert (await ask("jobs", "list", "--since", "5m", "--json")).document["jobs"] != []
        assert (await ask("jobs", "list", "--since", "2099-01-01")).stdout == "No job matches.\n"
        first = await ask("jobs", "list", "--limit", "2")
        rest = await ask("jobs", "list", "--limit", "2", "--before", str(jobs[1].id), "--json")
        assert first.stderr == f"There may be more. `--before {jobs[1].id}` shows what follows.\n"
        assert ([job["id"] for job in rest.document["jobs"]], rest.stderr) == ([str(jobs[0].id)], "")


async def test_approvals_and_runs_that_go_on_say_how_to_see_the_rest(atlas, conn, server):
    ids = [await request_workflow(conn, server.world.acme.id, "greet", {}, DANA, allow_unknown=True) for _ in range(3)]
    for id in ids:
        await given_review(conn, id)
    newest, middle, oldest = (await atlas("workflow", "approvals", "--json")).document["approvals"]
    first = await atlas("workflow", "approvals", "--limit", "2")
    rest = await atlas("workflow", "approvals", "--limit", "2", "--before", middle["id"], "--json")

    assert newest["id"] in first.stdout
    assert first.stderr == f"There may be more. `--before {middle['id']}` shows what follows.\n"
    assert ([approval["id"] for approval in rest.document["approvals"]], rest.stderr) == ([oldest["id"]], "")


async def test_the_status_is_the_same_over_http(atlas, remote, server, conn):
    await register_worker(conn, "w-1", job_types=["x.work"], lease=600)
    await enqueue(conn, NewJob("x.work", {}, server.world.acme.id), actor=DANA)
    closed = (await remote("offline", "--reason", "new disks", "--for", "2h", "--json")).document
    here, there = await both(atlas, remote, "status")
    for one in (here, there):
        one["queue"][0].pop("oldest_seconds")
        one["versions"][0].pop("seconds")

    assert (closed["online"], closed["reason"], closed["by"]) == (False, "new disks", "operator@all")
    # The worker exists in the database alone.
    assert (closed["confirmed"], closed["workers"]) == (0, 1)
    assert there == here
    assert there["workers"][0]["worker_id"] == "w-1"
    # The first operator's token serves where no other is set, and an address may be as the API's own pages show it.
    operator = server.world.tokens["all", "operator"]
    deeper = {"ATLAS_TOKEN": None, "ATLAS_OPERATOR_TOKEN": operator, "ATLAS_URL": f"{server.address}/api/v1/"}
    assert (await remote("online", **deeper)).stdout.startswith("Atlas is online since ")
    assert (await remote("engine", "off", "--json")).document["engine_by"] == "operator@all"
    assert "The engine is off since " in (await atlas("status")).stdout
    assert (await remote("engine", "on")).stdout == "The engine is on.\n"


async def test_a_tenants_token_needs_no_tenant_to_be_named(remote, server, conn):
    token = server.world.tokens["acme", "enqueuer"]
    made = await remote("enqueue", "x.work", "--json", ATLAS_TOKEN=token)
    foreign = await remote("jobs", "list", "--tenant", "other", ATLAS_TOKEN=token)

    owner = await conn.fetchval("select tenant_id from atlas.jobs where id = $1::uuid", made.document["id"])
    assert owner == server.world.acme.id
    assert "There is no tenant other" in foreign.refusal


async def test_an_error_is_one_line_that_names_the_setting(remote, server):
    unreachable = await remote("status", ATLAS_URL="http://127.0.0.1:1")
    without = await remote("status", ATLAS_TOKEN=None)
    wrong = await remote("status", ATLAS_TOKEN="atl_aaaaaaaa_" + "a" * 43)
    weak = await remote("offline", ATLAS_TOKEN=server.world.tokens["acme", "enqueuer"])
    invalid = await remote("jobs", "list", "--status", "lost", "--json")

    assert unreachable.refusal.startswith("error: There is no response from http://127.0.0.1:1: ")
    assert unreachable.refusal.endswith("ATLAS_URL is right.")
    assert "Set ATLAS_TOKEN" in without.refusal
    assert "does not accept the token. Set ATLAS_TOKEN" in wrong.refusal
    assert "The role enqueuer may not do this." in weak.refusal
    assert weak.refusal.endswith("Use a token with that right in ATLAS_TOKEN.")
    assert (invalid.code, invalid.document["error"]["type"]) == (1, "InvalidInput")
    assert invalid.document["error"]["errors"][0]["field"] == "query.status.0"


@pytest.mark.long
async def test_a_running_api_is_asked_when_the_database_has_no_free_connection(
    atlas, server, owner, tmp_path, database_url
):
    await owner.execute(MAKE_GUEST)
    await owner.execute(f'alter database "{await owner.fetchval("select current_database()")}" connection limit 0')
    home, full = tmp_path / "home", {"DATABASE_URL": as_guest(database_url)}
    with reporting(home, ["api"], address=server.address) as report:
        report.started("api", os.getpid())
        assert "has no free connection" in (await atlas("status", **full)).refusal  # there is no token

        (home / OPERATOR_TOKEN).write_text(server.world.tokens["all", "operator"])
        offline = await atlas("offline", **full)
        assert (offline.code, "was asked instead" in offline.stderr) == (0, True)
        assert (await atlas("status", "--json", **full)).document["gate"]["online"] is False

    assert "has no free connection" in (await atlas("status", **full)).refusal  # nothing says that an API runs


@pytest.mark.long
async def test_beginnings_of_ids_are_found_by_the_server_however_many_there_are(atlas, remote, conn):
    await atlas("tenant", "add", "acme")
    made = await atlas("trigger", "add", "--tenant", "acme", "--cron", "@daily", "--job-type", "report.build", "--json")
    id = made.document["id"]
    # More than any page, all newer than the one that is meant.
    await conn.execute(
        "insert into atlas.job_triggers (id, tenant_id, label, trigger_type, cron_expr, job_type, created_by)"
        " select ('ffff' || lpad(to_hex(n), 4, '0') || '-0000-7000-8000-000000000000')::uuid, tenant_id, 'many', 'schedule',"
        " cron_expr, job_type, 'x' from atlas.job_triggers, generate_series(1, 3000) n where id = $1",
        id,
    )

    fired = await remote("trigger", "remove", id[:13], "--json")
    several = await remote("trigger", "remove", "ffff")

    assert fired.document["id"] == id
    assert " and others" in several.refusal


async def test_the_audit_log_is_read_and_followed_by_the_beginning_of_an_id(atlas, remote):
    await atlas("tenant", "add", "acme")
    job = (await atlas("enqueue", "report.build", "--tenant", "acme", "--json")).document["id"]
    other = (await atlas("enqueue", "report.build", "--tenant", "acme", "--json")).document["id"]

    for ask in (atlas, remote):
        shown = (await ask("audit", "tail", "--entity", job[:35], "--json")).document["events"]
        assert [one["entity_id"] for one in shown] == [job]
        assert "several subjects begin with" in (await ask("audit", "tail", "--entity", job[:4])).refusal
        # A key is no id; what is gone has none any more.
        assert (await ask("audit", "tail", "--entity", "feed-beef", "--json")).document["events"] == []
    assert job != other


@pytest.mark.long
async def test_the_audit_log_is_followed_over_http(remote, atlas, server, tmp_path):
    job = (await atlas("enqueue", "report.build", "--tenant", "acme", "--json")).document["id"]
    other = (await atlas("enqueue", "report.build", "--tenant", "acme", "--json")).document["id"]
    following = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", "audit", "tail", "-f", "--entity", job[:35], "--json"),
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "ATLAS_HOME": str(tmp_path / "none"),
            "ATLAS_URL": server.address,
            "ATLAS_TOKEN": server.world.tokens["all", "operator"],
        },
        stdout=asyncio.subprocess.PIPE,
    )
    assert following.stdout is not None
    try:
        async with asyncio.timeout(60):
            first = json.loads(await following.stdout.readline())
            await atlas("jobs", "cancel", other)
            await atlas("jobs", "cancel", job)
            second = json.loads(await following.stdout.readline())
    finally:
        following.kill()
        await following.wait()

    assert [(one["entity_id"], one["action"]) for one in (first, second)] == [
        (job, "JOB_CREATED"),
        (job, "JOB_CANCELED"),
    ]


async def test_a_tenant_moves_on_the_database_that_is_named_beside_an_api(atlas, remote, conn, database_url, tmp_path):
    """The API may be that of another installation: the command names the database that it stops the tenant in."""
    both = {"DATABASE_URL": database_url}
    note = f"ATLAS_URL is not used: this command moves a tenant of the database {public_url(database_url)}."
    for words in (["export", "acme", "acme.zip"], ["export", "acme", "--cancel"], ["import", "acme.zip"]):
        ran = await remote("tenant", *words, "--json", **both, ATLAS_URL="http://127.0.0.1:1")
        assert ran.stderr.startswith(f"warning: {note} Unset DATABASE_URL"), ran
        # It is here, so it is not imported.
        assert ("error" in ran.document) == (words[0] == "import"), ran
    moves = (
        "select action from atlas.audit_log where action like 'TENANT_MOVE%' or action = 'TENANT_EXPORTED' order by id"
    )
    assert [row["action"] for row in await conn.fetch(moves)] == [
        "TENANT_MOVE_BEGAN",
        "TENANT_EXPORTED",
        "TENANT_MOVE_CANCELED",
    ]
    assert "ATLAS_URL is not used" not in (await atlas("tenant", "export", "acme", "again.zip")).stderr
