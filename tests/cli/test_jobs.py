"""`atlas enqueue` and `atlas jobs`: enqueue jobs, show them, cancel, retry and delete them."""

import asyncio
import re

import orjson
import pytest

from atlas.audit.record import Event, record
from atlas.engine.jobs.actions.cancel import cancel
from tests.cli.conftest import MAKE_GUEST
from tests.support import DANA, given_tenant, until


async def test_a_job_is_made_shown_explained_and_steered(atlas):
    made = (await atlas("enqueue", "report.build", "--input", '{"month": 3}', "--priority", "7", "--json")).document
    again = (await atlas("enqueue", "report.build", "--dedupe-key", "k", "--delay", "10m", "--json")).document
    listed = (await atlas("jobs", "list", "--json")).document["jobs"]
    assert [job["id"] for job in listed] == [again["id"], made["id"]]
    assert [job["shown_status"] for job in listed] == ["waiting", "queued"]

    pending = (await atlas("jobs", "list", "--status", "pending", "--json")).document["jobs"]
    assert [job["id"] for job in pending] == [again["id"], made["id"]]
    assert (await atlas("jobs", "list", "--status", "success", "--json")).document["jobs"] == []

    shown = (await atlas("jobs", "show", made["id"], "--json")).document
    assert (shown["job"]["input"], shown["job"]["priority"]) == ({"month": 3}, 7)
    assert shown["explanation"]["reason"] == "gate"

    assert (await atlas("jobs", "cancel", made["id"], "--json")).document["verdict"] == "canceled"
    assert "has already finished" in (await atlas("jobs", "cancel", made["id"])).refusal
    assert (await atlas("jobs", "retry", made["id"], "--json")).document["verdict"] == "retried"
    assert (await atlas("jobs", "delete", made["id"], "--json")).document["deleted"]
    assert "There is no job" in (await atlas("jobs", "explain", made["id"])).refusal


async def test_a_job_may_be_for_a_time_and_for_a_host(atlas):
    made = (await atlas("enqueue", "report.build", "--run-at", "2040-01-02T03:04+02:00", "--json")).document
    shown = (await atlas("jobs", "show", made["id"], "--json")).document["job"]
    assert shown["next_retry_at"] == shown["scheduled_for"] == "2040-01-02T01:04:00+00:00"
    text = (await atlas("jobs", "show", made["id"])).stdout
    assert re.search(r"scheduled for +2040-01-02 01:04:00 UTC\n *next attempt +2040-01-02 01:04:00 UTC", text)
    both = await atlas("enqueue", "report.build", "--run-at", "2040-01-02T03:04+02:00", "--delay", "1m")
    assert "--run-at: cannot be combined with --delay" in both.refusal
    assert (await atlas("tenant", "add", "acme")).code == 0
    host = (await atlas("host", "add", "web-1", "--tenant", "acme", "--json")).document
    made = (await atlas("enqueue", "report.build", "--tenant", "acme", "--host", "web-1", "--json")).document
    shown = (await atlas("jobs", "show", made["id"], "--json")).document["job"]
    assert shown["host_id"] == host["id"]
    unknown = await atlas("enqueue", "report.build", "--tenant", "acme", "--host", "web-9")
    assert "There is no host" in unknown.refusal


async def test_a_command_waits_for_its_job_and_says_how_it_ended(atlas, pool):
    waiting = asyncio.create_task(atlas("enqueue", "report.build", "--wait", "--json"))
    await until(lambda: pool.fetchval("select count(*) from atlas.jobs"))
    async with pool.acquire() as conn:
        await cancel(conn, await conn.fetchval("select id from atlas.jobs"), actor=DANA)
    ended = await waiting
    assert (ended.code, ended.document["job"]["status"]) == (1, "canceled")
    unfit = await atlas("enqueue", "ENGINE_RUN", "--input", '{"workflow": "x"}', "--wait")
    assert "--wait: does not apply to a workflow" in unfit.refusal


async def test_an_input_may_come_from_a_file_or_stdin(atlas, tmp_path):
    large = {"x": "ü" * 90_000}
    (tmp_path / "input.json").write_bytes(orjson.dumps(large))
    by_file = (await atlas("enqueue", "t", "--input", "@input.json", "--json")).document
    piped = (await atlas("enqueue", "t", "--input", "-", "--json", stdin=orjson.dumps(large))).document

    for made in (by_file, piped):
        assert (await atlas("jobs", "show", made["id"], "--json")).document["job"]["input"] == large

    (tmp_path / "input.json").write_text("{")
    assert (
        "--input: the text in input.json is not JSON" in (await atlas("enqueue", "t", "--input", "@input.json")).refusal
    )
    assert (
        "--input: the text on stdin is not a JSON object"
        in (await atlas("enqueue", "t", "--input", "-", stdin=b"[1]")).refusal
    )


async def test_a_workflow_that_is_asked_for_as_a_job_becomes_an_intent(atlas, pool):
    payload = '{"workflow": "wf", "input": {"a": 1}, "spend_cents": 5}'
    made = (
        await atlas("enqueue", "ENGINE_RUN", "--input", payload, "--priority", "2", "--allow-unknown", "--json")
    ).document
    forged = await atlas("enqueue", "ENGINE_RUN", "--input", '{"workflow": "wf", "requestedBy": "ada"}')
    unfit = await atlas("enqueue", "ENGINE_RUN", "--input", '{"workflow": 5}', "--delay", "10m")

    intent = await pool.fetchrow("select id, workflow, input, spend_cents, priority, status::text from atlas.intents")
    assert tuple(map(str, intent)) == (made["id"], "wf", '{"a": 1}', "5", "2", "draft")
    assert await pool.fetchval("select count(*) from atlas.jobs") == 0
    assert "--input: requestedBy: is unknown" in forged.refusal
    assert "--delay: does not apply to a workflow" in unfit.refusal


async def test_a_wrong_mail_is_refused_wherever_it_is_asked_for(atlas):
    wrong = '{"to": "a..b@example.com", "subject": "x", "text": "y"}'
    target = ("--job-type", "EMAIL_SEND", "--input", wrong)
    trigger = (await atlas("trigger", "add", "--tenant", "system", "--cron", "@daily", *target, "--json")).document

    for ask in (("enqueue", "EMAIL_SEND", "--input", wrong), ("trigger", "fire", trigger["id"])):
        # What sends mails is not looked at, as the worker's machine has it.
        refused = await atlas(*ask, OUTBOUND_EMAIL_FROM="nobody")
        assert "to: is not an address such as ada@example.com" in refused.refusal


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("enqueue", "t", "--input", "[1]"), "--input: is not a JSON object"),
        (("enqueue", "t", "--input", "{"), "--input: is not JSON"),
        (("enqueue", "t", "--input", '{"a":123456789012345678901234567890}'), "a whole number of more than 64 bits"),
        (("enqueue", "t", "--input", '{"a":1,"a":2}'), "--input: names the key 'a' twice"),
        (("enqueue", "t", "--input", '{"a":' * 40 + "1" + "}" * 40), "--input: is nested more than 32 levels"),
        (("enqueue", "t", "--priority", "3000000000"), "priority: is not between"),
        (("enqueue", "t", "--max-retries", "99999999999"), "max_retries: is not between"),
        (("enqueue", "t", "--input", "@gone.json"), "--input: gone.json cannot be read: No such file or directory"),
        (("enqueue", "t", "--input", "@."), "--input: . cannot be read: Is a directory"),
        (("enqueue", "t", "--tenant", "nobody"), "nobody"),
        (("jobs", "show", "nonsense"), "is not an id, nor the beginning of one"),
        (("jobs", "list", "--status", "lost"), "status: is not one of"),
        (("jobs", "retry"), "give a job's id, or --dead-letters"),
    ],
)
async def test_a_command_that_cannot_be_done_is_refused_in_one_line(atlas, arguments, cause):
    assert cause in (await atlas(*arguments)).refusal


async def test_a_tenant_without_a_name_is_not_atlass_own(atlas, database_url):
    assert "There is no tenant" in (await atlas("enqueue", "a.work", "--tenant", "")).refusal


@pytest.mark.parametrize(
    "arguments",
    [
        ("enqueue", "t\udcff"),
        ("enqueue", "t", "--dedupe-key", "a\udcff"),
        ("jobs", "list", "--type", "\udcff"),
        ("offline", "--reason", "x\udcff"),
    ],
)
async def test_bytes_that_are_no_text_are_refused_as_such(atlas, arguments):
    ran = await atlas(*arguments)
    assert (ran.code, "is not text in UTF-8" in ran.stderr) == (2, True)


async def test_a_type_or_workflow_that_nothing_knows_is_refused_with_names_like_it(atlas, pool):
    for typo in (("enqueue", "report.biuld"), ("workflow", "run", "wf.unknown")):
        assert f"{typo[-1]!r} is not known" in (await atlas(*typo)).refusal
        assert (await atlas(*typo, "--allow-unknown")).code == 0

    assert "names like it are report.build" in (await atlas("enqueue", "report.biuld")).refusal
    assert await pool.fetchval("select array_agg(job_type) from atlas.jobs") == ["report.biuld"]
    assert await pool.fetchval("select array_agg(workflow) from atlas.intents") == ["wf.unknown"]


@pytest.mark.long
async def test_a_login_of_another_application_is_granted_the_right_to_enqueue(atlas, owner):
    await owner.execute(MAKE_GUEST)
    await given_tenant(owner, "acme")
    narrow = ("--tenant", "acme", "--type", "invoice.send", "--type", "report.*")
    assert (await atlas("grant", "enqueue", "atlas_guest")).code == 2
    granted = await atlas("grant", "enqueue", "atlas_guest", *narrow)
    again = await atlas("grant", "enqueue", "atlas_guest", *narrow)
    missing = await atlas("grant", "enqueue", "no_such_login", *narrow)
    listed = (await atlas("grant", "list", "--login", "atlas_guest", "--json")).document["grants"]
    table = (await atlas("grant", "list", "--tenant", "acme")).stdout
    some = await atlas("grant", "revoke", "atlas_guest", "--type", "report.*")
    rest = await atlas("grant", "revoke", "atlas_guest")
    none = await atlas("grant", "revoke", "atlas_guest")

    lines = ["The login atlas_guest may call atlas.enqueue:", "  invoice.send for acme", "  report.* for acme", ""]
    assert granted.stdout.split("\n") == again.stdout.split("\n") == lines
    assert "There is no login no_such_login." in missing.refusal
    assert [(one["login"], one["tenant"], one["job_type"]) for one in listed] == [
        ("atlas_guest", "acme", "invoice.send"),
        ("atlas_guest", "acme", "report.*"),
    ]
    assert "report.*" in table
    assert some.stdout == "The login atlas_guest may no longer enqueue:\n  report.* for acme\n"
    assert rest.stdout == "The login atlas_guest may no longer enqueue:\n  invoice.send for acme\n"
    assert "There is no grant of the login atlas_guest." in none.refusal
    assert not await owner.fetchval("select pg_has_role('atlas_guest', 'atlas_enqueuer', 'member')")


async def test_the_doctor_names_logins_that_were_granted_enqueue_by_an_earlier_version(atlas, owner):
    await owner.execute(MAKE_GUEST)
    await owner.execute("select atlas.grant_enqueue('atlas_guest')")
    await record(owner, Event("ENQUEUE_GRANTED", "login", "atlas_guest", DANA))
    try:
        checks = (await atlas("doctor", "--json")).document["checks"]
    finally:
        await owner.execute("select atlas.revoke_enqueue('atlas_guest')")
    [found] = [check for check in checks if check["check"] == "grants"]
    assert found["verdict"] == "warn"
    assert "atlas_guest" in found["found"]
    assert "atlas grant enqueue LOGIN --tenant" in found["remedy"]


async def test_errors_logs_and_output_of_attempts_are_shown(atlas, pool):
    made = (await atlas("enqueue", "report.build", "--json")).document["id"]
    assert "There is no attempt 1." in (await atlas("jobs", "logs", made)).refusal
    await pool.execute(
        "insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at, error_text, log_tail, stdout_tail)"
        " values ($1, 1, 'w', 'failed', now(), E'Traceback\\nKeyError: 3', E'info reading [red]3\\n', null),"
        " ($1, 2, 'w', 'failed', now(), null, null, E'out\\n')",
        made,
    )
    shown = (await atlas("jobs", "show", made)).stdout
    for text in ("Error of attempt 1", "KeyError: 3", "info reading [red]3", "Standard output of attempt 2"):
        assert text in shown
    first = await atlas("jobs", "logs", made, "--attempt", "1")
    assert "info reading [red]3" in first.stdout
    assert "Standard output" not in first.stdout
    both = (await atlas("jobs", "logs", made, "--json")).document
    assert [(attempt["attempt_no"], attempt["log_tail"], attempt["stdout_tail"]) for attempt in both["attempts"]] == [
        (1, "info reading [red]3\n", None),
        (2, None, "out\n"),
    ]
    assert "There is no attempt 3." in (await atlas("jobs", "logs", made, "--attempt", "3")).refusal


async def test_a_long_log_is_cut_and_says_where_the_rest_is(atlas, pool):
    made = (await atlas("enqueue", "report.build", "--json")).document["id"]
    await pool.execute(
        "insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at, log_tail)"
        " select $1, 1, 'w', 'failed', now(), string_agg('line ' || n, E'\\n' order by n) from generate_series(1, 100) n",
        made,
    )
    shown = (await atlas("jobs", "show", made)).stdout
    whole = (await atlas("jobs", "logs", made)).stdout

    assert f"Log of attempt 1, its last 40 lines; `atlas jobs logs {made}` shows all" in shown
    assert ("line 60\n" in shown, "line 61\n" in shown) == (False, True)
    assert "line 1\n" in whole
