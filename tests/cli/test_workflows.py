"""`atlas workflow` and `atlas event`: asked from outside, seen as people see them."""

import asyncio
import contextlib
import io
import json
import sys

import pytest
import structlog
from typer.testing import CliRunner

from atlas.cli.main import app, main
from atlas.engine.workflows.registry import registered_workflows
from atlas.engine.workflows.workflow_catalog import publish_workflows
from tests.cli.conftest import Ran
from tests.engine.workflows import flows
from tests.engine.workflows.kit import Kit

DOCUMENT = {
    "key": "greet",
    "description": "Asks, then waits.",
    "steps": [
        {"id": "ask", "approval": "Greet {{ input.name }}?", "timeout": "1h"},
        {"id": "paid", "needs": ["ask"], "event": "paid", "with": {"name": "{{ input.name }}"}},
    ],
}


@pytest.fixture
def atlas(tmp_path, database_url, monkeypatch):
    """The command in this process: everything but the start of an interpreter, which other tests of commands show."""
    monkeypatch.setenv("ATLAS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.delenv("ATLAS_URL", raising=False)

    def run(arguments):
        monkeypatch.setattr(sys, "argv", ["atlas", *arguments])
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
        return Ran(code, out.getvalue(), err.getvalue())

    async def call(*arguments):
        return await asyncio.to_thread(run, arguments)

    return call


@pytest.fixture
def engine(pool, database_url):
    """Let the engine and the workers do what is due."""

    kit = Kit(pool, database_url)

    async def work() -> None:
        # Its lines would stand in the output of a command that waits beside it.
        with structlog.testing.capture_logs():
            await kit.tick()
            await kit.work()

    return work


@pytest.fixture
async def published(online, owner):
    await publish_workflows(owner, registered_workflows().values(), by="tests")


async def test_a_declared_workflow_is_checked_saved_run_answered_and_shown(atlas, engine, published, tmp_path):
    file = tmp_path / "greet.json"
    file.write_text(json.dumps(DOCUMENT))
    checked = await atlas("workflow", "check", str(file))
    saved = await atlas("workflow", "save", str(file))
    again = await atlas("workflow", "save", str(file), "--json")
    asked = await atlas("workflow", "run", "greet", "--input", '{"name": "Ada"}', "--json")
    run_id = asked.document["id"]
    waits = await atlas("workflow", "show", run_id)
    await engine()
    listed = await atlas("workflow", "list", "--status", "waiting", "--json")
    questions = await atlas("workflow", "approvals", "--json")
    shown = await atlas("workflow", "show", run_id)
    received = await atlas("workflow", "show", run_id, "--json")

    assert (received.document["run"]["status"], received.document["steps"][0]["key"]) == ("waiting", "ask")
    assert checked.stdout == f"{file} is valid.\n"
    assert saved.stdout == "Saved greet as version 1.\n"
    assert (again.document["version"], again.document["is_new"]) == (1, False)
    assert "waits for the engine" in waits.stdout
    assert [run["id"] for run in listed.document["runs"]] == [run_id]
    assert questions.document["approvals"][0]["title"] == "Greet Ada?"
    assert "ask waits for approval" in shown.stdout
    assert "… " in shown.stdout


async def test_the_person_who_asked_may_not_approve(atlas, engine, published, tmp_path):
    file = tmp_path / "greet.json"
    file.write_text(json.dumps(DOCUMENT))
    await atlas("workflow", "save", str(file))
    asked = await atlas("workflow", "run", "greet", "--input", '{"name": "Ada"}', "--json")
    await engine()
    refused = await atlas("workflow", "approve", asked.document["id"])

    assert "requested this and may not decide it" in refused.refusal


async def test_a_waiting_run_is_signaled_and_one_that_failed_is_retried_and_forked(atlas, engine, published):
    waiting = (await atlas("workflow", "run", "wf.waits", "--input", '{"order": 1}', "--json")).document["id"]
    failed = (await atlas("workflow", "run", "wf.cure", "--json")).document["id"]
    flows.calls.clear()
    await engine()
    signaled = await atlas("workflow", "signal", waiting, "paid", "--context", '{"order": 1}')
    story = await atlas("workflow", "show", failed)
    flows.calls["cured"] = 1
    retried = await atlas("workflow", "retry", failed)
    await engine()
    forked = await atlas("workflow", "fork", failed, "--from", "work", "--json")
    await engine()
    states = {run["id"]: run["status"] for run in (await atlas("workflow", "list", "--json")).document["runs"]}

    assert signaled.stdout == "Signal 'paid' woke the run.\n"
    assert "wf.cure failed: Step 'work' failed: not yet" in story.stdout
    assert "✗" in story.stdout
    assert retried.stdout == f"Run {failed} continues.\n"
    assert states == {waiting: "succeeded", failed: "succeeded", forked.document["id"]: "succeeded"}
    assert flows.calls["before"] == 1


async def test_a_run_is_canceled_before_and_after_its_start(atlas, engine, published):
    early = (await atlas("workflow", "run", "wf.waits", "--input", '{"order": 1}', "--json")).document["id"]
    withdrawn = await atlas("workflow", "cancel", early)
    late = (await atlas("workflow", "run", "wf.waits", "--input", '{"order": 1}', "--json")).document["id"]
    await engine()
    canceled = await atlas("workflow", "cancel", late, "--json")
    twice = await atlas("workflow", "cancel", late)

    assert withdrawn.stdout == f"Run {early} was withdrawn before starting.\n"
    assert canceled.document["verdict"] == "canceled"
    assert "has already finished" in twice.refusal


async def test_policy_is_asked_without_starting_anything(atlas):
    await atlas("workflow", "policy", "add", "costly", "--effect", "review", "--spend-above", "100")
    cheap = await atlas("workflow", "check", "wf.plain", "--spend-cents", "100", "--json")
    costly = await atlas("workflow", "check", "wf.plain", "--spend-cents", "101")
    rules = await atlas("workflow", "policy", "list", "--json")
    removed = await atlas("workflow", "policy", "remove", "costly")

    assert (cheap.document["effect"], cheap.document["known"]) == ("allow", False)
    assert costly.stdout.startswith("review: Rule 'costly' says review: it spends 101 cents, more than 100.")
    assert rules.document["rules"][0]["label"] == "costly"
    assert removed.stdout == "Rule 'costly' removed.\n"


async def test_mistakes_are_shown_with_their_path_and_exit_1(atlas, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"key": "x", "steps": [{"id": "a", "job": "j", "with": {"to": "{{ nobody }}"}}]}))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    checked = await atlas("workflow", "check", str(bad))
    unreadable = await atlas("workflow", "check", str(broken))
    missing = await atlas("workflow", "show", "0190a4c8-0000-7000-8000-00000000dead")
    no_id = await atlas("workflow", "cancel", "nonsense")
    no_json = await atlas("workflow", "run", "x", "--input", "[1]")

    assert "steps[0].with.to: 'nobody' is not defined here" in checked.refusal
    assert "is not JSON" in unreadable.refusal
    assert "There is no run" in missing.refusal
    assert "'nonsense' is not an id" in no_id.refusal
    assert "--input: is not a JSON object" in no_json.refusal


async def test_a_request_that_would_come_to_nothing_is_refused_at_once(atlas, published, conn):
    unknown = await atlas("workflow", "run", "wf.typd")
    wrong = await atlas("workflow", "run", "wf.typed", "--input", '{"item": 5}')
    await atlas("workflow", "disable", "wf.plain")
    disabled = await atlas("workflow", "run", "wf.plain")
    like_it = await atlas("workflow", "enable", "wf.plian")

    assert "names like it are wf.typed" in unknown.refusal
    assert "The input of wf.typed is not valid: item" in wrong.refusal
    assert (
        "The workflow wf.plain is disabled. `atlas workflow enable wf.plain` lets it start again." in disabled.refusal
    )
    assert "There is no workflow wf.plian. Similar: wf.plain" in like_it.refusal
    assert await conn.fetchval("select count(*) from atlas.intents") == 0


async def test_requests_that_were_blocked_are_listed_with_the_reason(atlas, engine, published):
    await atlas("workflow", "policy", "add", "costly", "--effect", "block", "--spend-above", "100")
    blocked = (await atlas("workflow", "run", "wf.plain", "--spend-cents", "101", "--json")).document["id"]
    await atlas("workflow", "run", "wf.plain")
    await engine()
    listed = await atlas("workflow", "requests", "--status", "blocked")
    newest = await atlas("workflow", "requests", "--before", blocked, "--json")

    [_, line] = listed.stdout.splitlines()
    assert line.split()[:4] == ["blocked", "system", "wf.plain", blocked]
    assert "Rule 'costly' says block: it spends 101 cents, more than 100." in line
    assert newest.document["requests"] == []
    nonsense = await atlas("workflow", "requests", "--status", "nonsense")
    assert (nonsense.code, "'nonsense' is not one of 'draft'" in nonsense.stderr) == (2, True)


async def test_a_command_waits_for_its_run_and_ends_as_the_run_does(atlas, engine, published):
    async def settled(*arguments: str) -> Ran:
        waiting = asyncio.create_task(atlas("workflow", "run", *arguments, "--wait"))
        while not waiting.done():
            await engine()
            await asyncio.sleep(0.05)
        return await waiting

    await atlas("workflow", "policy", "add", "costly", "--effect", "block", "--spend-above", "100")
    well = await settled("wf.plain", "--json")
    flows.calls.clear()
    failed = await settled("wf.cure")
    blocked = await settled("wf.plain", "--spend-cents", "101")

    assert (well.code, well.document["run"]["status"], well.document["run"]["tenant"]) == (0, "succeeded", "system")
    assert "of wf.plain requested." in well.stderr
    assert (blocked.code, "The request for wf.plain is blocked." in blocked.stdout) == (1, True)
    assert (failed.code, "wf.cure failed: Step 'work' failed: not yet" in failed.stdout) == (1, True)


def test_every_workflow_command_explains_itself_and_takes_json():
    names = ["run", "list", "show", "check", "signal", "approve", "approvals", "cancel", "retry", "fork", "save"]
    names += ["enable", "disable", "requests"]
    for command in [*(["workflow", name] for name in names), ["workflow", "policy", "add"], ["event", "publish"]]:
        ran = CliRunner().invoke(app, [*command, "--help"])
        assert (ran.exit_code, "--json" in ran.stdout) == (0, True), command


async def test_status_shows_whether_an_engine_polls_and_warns_if_none_does(atlas, engine, published, pool):
    never = await atlas("status")
    await engine()
    well = await atlas("status", "--json")
    await pool.execute(
        """update atlas.system_state set value = jsonb_build_object('last_tick_at', now() - interval '2 minutes')
           where key = 'engine_tick'"""
    )
    await atlas("workflow", "run", "wf.plain")
    silent = await atlas("status")
    await atlas("offline")
    off = await atlas("status")

    assert "Warning: no engine has run yet" in never.stdout
    assert well.document["engine"]["silent_seconds"] < 60
    assert "Warning: the engine last polled 0:02:0" in silent.stdout
    assert "1 requests wait" in silent.stdout
    assert "The engine is off; 1 requests wait." in off.stdout


async def test_a_published_event_wakes_the_run_that_waits_for_it(atlas, engine, published):
    run_id = (await atlas("workflow", "run", "wf.waits", "--input", '{"order": 7}', "--json")).document["id"]
    await engine()
    published = await atlas("event", "publish", "paid", "--context", '{"order": 7}', "--json")
    broken = await atlas("event", "publish", "paid", "--context", "[1]")
    stranger = await atlas("event", "publish", "paid", "--tenant", "nobody")
    await engine()
    shown = await atlas("workflow", "show", run_id, "--json")

    assert published.document["woken"] == 1
    assert "--context: is not a JSON object" in broken.refusal
    assert "There is no tenant nobody" in stranger.refusal
    assert shown.document["run"]["output"] == {"first": {"order": 7}}


async def test_versions_are_listed_compared_and_rolled_back(atlas, tmp_path):
    file = tmp_path / "greet.json"
    for timeout in ("1h", "2h"):
        first, *rest = DOCUMENT["steps"]
        file.write_text(json.dumps({**DOCUMENT, "steps": [{**first, "timeout": timeout}, *rest]}))
        assert (await atlas("workflow", "save", str(file))).code == 0

    compared = (await atlas("workflow", "diff", "greet")).stdout
    assert [line.strip() for line in compared.splitlines() if line[:1] in "+-"] == [
        "--- greet version 1",
        "+++ greet version 2",
        '-      "timeout": "1h"',
        '+      "timeout": "2h"',
    ]
    assert (
        "Saved version 3 of greet, with the document of version 1."
        in (await atlas("workflow", "rollback", "greet", "1")).stdout
    )
    assert "are the same" in (await atlas("workflow", "diff", "greet", "1", "3")).stdout
    listed = (await atlas("workflow", "versions", "greet", "--json")).document["versions"]
    assert [one["version"] for one in listed] == [3, 2, 1]
    assert "There is no version 9 of workflow greet" in (await atlas("workflow", "rollback", "greet", "9")).refusal
    assert "There is no workflow nothing" in (await atlas("workflow", "versions", "nothing")).refusal


async def test_a_dry_run_says_what_would_happen_and_fails_where_the_run_would(atlas, tmp_path):
    file = tmp_path / "greet.json"
    file.write_text(json.dumps(DOCUMENT))

    tried = await atlas("workflow", "dry-run", str(file), "--input", '{"name": "ann"}')
    assert "Greet ann?" in tried.stdout
    assert tried.code == 0
    failing = await atlas("workflow", "dry-run", str(file), "--json")
    assert (failing.code, failing.document["ok"]) == (1, False)
    assert failing.document["steps"][0]["errors"][0]["field"] == "steps[0].approval"
    file.write_text('{"key": "greet", "steps": []}')
    assert "steps" in (await atlas("workflow", "dry-run", str(file))).refusal
