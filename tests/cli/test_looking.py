"""Commands that show one thing or list things: the same on the database and over HTTP, as text and as JSON."""

import asyncio
import json
import sys
from uuid import UUID

import pytest
from typer.testing import CliRunner

from atlas.cli.command_table import ALIASES, COMMANDS, GROUPS, load_command
from atlas.cli.main import app
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.groups import insert_group
from atlas.engine.jobs.lease import register_worker
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.cli.conftest import Ran, environment
from tests.cli.test_over_http import Ask, atlas, both, quiet, remote, server, settings
from tests.support import DANA

__all__ = ["atlas", "quiet", "remote", "server", "settings"]

BURY = "update atlas.jobs set status = 'failed', finished_at = now(), dead_lettered_at = now() where group_id = $1"


async def same(atlas: Ask, remote: Ask, *arguments: str) -> Ran:
    """What a command prints on the database, and over HTTP too."""
    here, there = await both(atlas, remote, *arguments)
    assert there == here
    text = await atlas(*arguments)
    assert text.code == 0, text
    assert text.stdout == (await remote(*arguments)).stdout
    return Ran(0, text.stdout, json.dumps(here))


async def test_groups_are_listed_newest_first(atlas, remote, server, conn):
    assert "There are no groups" in (await atlas("group", "list")).stdout
    acme, ids = server.world.acme.id, []
    for name in ("a", "b"):
        jobs = [NewJob("x.work", {}, acme) for _ in range(2)]
        ids.append(str(await insert_group(conn, acme, jobs, then=None, name=name, actor=DANA)))

    listed = (await both(atlas, remote, "group", "list", "--tenant", "acme"))[1]
    assert [(group["id"], group["tenant"], group["counts"]) for group in listed["groups"]] == [
        (id, "acme", {"queued": 2}) for id in reversed(ids)
    ]
    first = await remote("groups", "list", "--limit", "1")
    assert (ids[1] in first.stdout, "2 queued" in first.stdout) == (True, True)
    assert first.stderr == f"There may be more. `--before {ids[1]}` shows what follows.\n"
    rest = await atlas("group", "list", "--before", ids[1], "--json")
    assert [group["id"] for group in rest.document["groups"]] == [ids[0]]

    counted = (await both(atlas, remote, "group", "cancel", ids[0], "--preview"))[1]
    assert (counted["jobs"], "bulk_action_id" in counted) == (2, False)
    canceled = (await remote("group", "cancel", ids[0], "--json")).document
    assert (canceled["jobs"], canceled["changed"]) == (2, 2)
    assert (await atlas("group", "cancel", ids[0])).stdout == "Jobs to cancel: 0.\n"
    assert "Jobs to retry: 2. Change them with --digest " in (await atlas("group", "retry", ids[0], "--preview")).stdout

    await conn.execute(BURY, UUID(ids[0]))
    counted = (await both(atlas, remote, "jobs", "retry", "--dead-letters", "--preview"))[1]
    await conn.execute(BURY, UUID(ids[1]))
    retried = await remote("jobs", "retry", "--dead-letters", "--digest", counted["digest"])
    assert retried.stdout == "Jobs to retry: 2, changed: 2. Arrived since and left as they are: 2.\n"
    assert (await atlas("jobs", "retry", "--dead-letters", "--limit", "1", "--json")).document["changed"] == 1


async def test_a_trigger_a_hook_and_a_definition_are_shown(atlas, remote, server, tmp_path):
    made = await atlas("trigger", "add", "--tenant", "acme", "--cron", "@daily", "--job-type", "x.work", "--json")
    shown = await same(atlas, remote, "trigger", "show", made.document["id"])
    assert json.loads(shown.stderr)["cron_expr"] == "@daily"
    assert "x.work" in shown.stdout

    hook = (await atlas("hooks", "add", "pay.done", "--tenant", "acme", "--json")).document
    shown = await same(atlas, remote, "hook", "show", hook["id"])
    assert (hook["path"] in shown.stdout, hook["secret"] in shown.stdout) == (True, False)

    (tmp_path / "d.json").write_text(json.dumps({"key": "back.up", "argv": ["/bin/true"]}))
    added = (await atlas("definition", "add", str(tmp_path / "d.json"), "--json")).document
    shown = await same(atlas, remote, "definition", "show", "back.up")
    assert json.loads(shown.stderr) == added
    assert '["/bin/true"]' in shown.stdout
    assert "There is no definition x.y" in (await remote("definition", "show", "x.y")).refusal


async def test_dead_letters_are_counted_by_cause_and_tenant(atlas, remote, server, conn):
    jobs = [NewJob("x.work", {}, server.world.acme.id) for _ in range(2)]
    group = await insert_group(conn, server.world.acme.id, jobs, then=None, name="a", actor=DANA)
    await conn.execute(BURY, group)

    assert "acme 2" in (await atlas("jobs", "dead-letters")).stdout
    assert [document["count"] for document in await both(atlas, remote, "jobs", "dead-letters")] == [2, 2]


async def test_workers_are_listed(atlas, remote, conn):
    assert "Start one with `atlas worker --all`" in (await atlas("worker", "list")).stdout
    await register_worker(conn, "w-1", job_types=["x.work"], lease=600)

    here, there = await both(atlas, remote, "worker", "list")
    assert there == here
    [worker] = here["workers"]
    assert (worker["worker_id"], worker["job_types"], worker["running_count"]) == ("w-1", ["x.work"], 0)
    assert "w-1" in (await remote("workers", "list")).stdout


async def test_a_job_is_watched_until_it_has_finished(atlas, remote, server, conn):
    made = await enqueue(conn, NewJob("x.work", {}, server.world.acme.id), actor=DANA)
    await atlas("jobs", "cancel", str(made.id))

    for ask in (atlas, remote):
        watched = await ask("jobs", "watch", str(made.id))
        assert (watched.code, watched.stderr) == (1, "")
        assert watched.stdout.startswith(f"Job {made.id} has canceled.")
        document = (await ask("job", "watch", str(made.id), "--json")).document
        assert document["job"]["status"] == "canceled"
    assert "only go without an id" in (await atlas("jobs", "watch", str(made.id), "--type", "x.work")).refusal


@pytest.mark.long
async def test_the_newest_jobs_are_watched_change_by_change(atlas, server, conn, database_url, tmp_path):
    watching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", "jobs", "watch", "--tenant", "acme", "--json"),
        cwd=tmp_path,
        env=environment(tmp_path / "home", DATABASE_URL=database_url),
        stdout=asyncio.subprocess.PIPE,
    )
    assert watching.stdout is not None
    try:
        async with asyncio.timeout(60):
            made = await enqueue(conn, NewJob("x.work", {}, server.world.acme.id), actor=DANA)
            first = json.loads(await watching.stdout.readline())
            await atlas("jobs", "cancel", str(made.id))
            second = json.loads(await watching.stdout.readline())
    finally:
        watching.kill()
        await watching.wait()

    assert [(job["id"], job["tenant"], job["status"]) for job in (first, second)] == [
        (str(made.id), "acme", "queued"),
        (str(made.id), "acme", "canceled"),
    ]


@pytest.mark.parametrize("alias", ALIASES)
def test_a_group_is_found_in_the_singular_and_in_the_plural(alias):
    name = ALIASES[alias]
    assert {alias, name} == {name.rstrip("s"), f"{name.rstrip('s')}s"}
    ran = CliRunner().invoke(app, [alias, "--help"])
    assert (ran.exit_code, f"Usage: atlas {name}" in " ".join(ran.output.split())) == (0, True)


def test_every_group_has_an_alias_and_no_alias_is_a_command():
    groups = [name for name in COMMANDS if hasattr(load_command(name), "commands")]
    others = {"audit", "engine", "outbox", "recurring"}  # They have no other number.

    assert {*groups} - others <= {*GROUPS}
    assert not {*ALIASES} & {*COMMANDS}


@pytest.mark.long
def test_no_help_shows_a_type_of_python():
    for words in every_command():
        text = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"}).output
        assert "--help" in text
        assert [line for line in text.splitlines() if "<" in line and ">" in line and "<=x" not in line] == [], words


def every_command() -> list[list[str]]:
    found: list[list[str]] = [[]]
    for name in COMMANDS:
        command = load_command(name)
        found.append(name.split())
        for inner in getattr(command, "commands", ()):
            found.append([name, inner])
    return found
