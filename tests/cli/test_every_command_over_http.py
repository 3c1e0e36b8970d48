"""Every command with ATLAS_URL: it works on the API alone, or says in one sentence why it does not."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.cli.command_table import COMMANDS, load_command
from atlas.cli.connection.needs_database import REASONS
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.outbox_files import outbox_folder
from atlas.engine.workflows.intents import request_workflow, take_intents
from atlas.home.up_report import reporting
from atlas.workers.tick import tick
from tests.api.conftest import quiet, server, settings
from tests.api.given import furnish_installation, furnish_tenant
from tests.cli.conftest import MAKE_GUEST
from tests.cli.test_over_http import atlas, remote
from tests.support import DANA

__all__ = ["atlas", "quiet", "remote", "server", "settings"]

# The arguments of each command, in the order in which they are run. What is in braces is made before.
WORKING = {
    "status": "",
    "doctor": "",
    "usage": "",
    "insights": "",
    "explain": "{trigger_id}",
    "jobs list": "--tenant acme",
    "jobs show": "{job_id}",
    "jobs types": "",
    "jobs dead-letters": "--tenant acme",
    "jobs enqueue-again": "{ended_id}",
    "jobs bulk list": "",
    "jobs bulk cancel": "{bulk_id}",
    "worker list": "",
    "worker drain": "{worker_id}",
    "jobs logs": "{job_id}",
    "jobs explain": "{job_id}",
    "jobs cancel": "{job_id}",
    "jobs watch": "{ended_id}",
    "jobs retry": "{job_id}",
    "effects list": "--tenant acme --state unknown",
    "effects show": "{effect_id}",
    "effects settle": "{effect_id} --done --reference ch_1",
    "jobs delete": "{job_id}",
    "effects reports": "",
    "group list": "--tenant acme",
    "group show": "{group_id}",
    "group cancel": "{group_id}",
    "group retry": "{group_id}",
    "enqueue": "x.work --tenant acme --host box-acme",
    "workflow list": "--tenant acme",
    "workflow requests": "",
    "workflow show": "{run_id}",
    "workflow approvals": "",
    "workflow approve": "{approval_id}",
    "workflow run": "greet-acme --tenant acme",
    "workflow signal": "{run_id} hurry",
    "workflow fork": "{stepped_id} --from wait",
    "workflow cancel": "{run_id}",
    "workflow retry": "{failed_id}",
    "workflow save": "{workflow_file} --tenant acme",
    "workflow check": "greet-acme --tenant acme",
    "workflow dry-run": "greet-acme --tenant acme",
    "workflow versions": "greet-acme --tenant acme",
    "workflow diff": "greet-acme 1 1 --tenant acme",
    "workflow rollback": "greet-acme 1 --tenant acme",
    "workflow disable": "greet-acme --tenant acme",
    "workflow enable": "greet-acme --tenant acme",
    "workflow policy add": "big --effect review --spend-above 100 --tenant acme",
    "workflow policy edit": "big --effect block --spend-above none --runs-per-day 3 --tenant acme",
    "workflow policy list": "",
    "workflow policy remove": "big --tenant acme",
    "trigger list": "--tenant acme",
    "trigger show": "{trigger_id}",
    "trigger add": "--tenant acme --cron @hourly --job-type x.work",
    "trigger edit": "{trigger_id} --label Noon",
    "trigger preview": "{trigger_id}",
    "trigger fire": "{trigger_id}",
    "trigger fires": "{trigger_id}",
    "trigger remove": "{trigger_id}",
    "event publish": "it.happened --tenant acme",
    "event list": "--name it.* --tenant acme",
    "recurring list": "",
    "recurring show": "{recurring_id} --tenant acme",
    "webhooks add": "https://shop.example/hook --tenant acme --event job.*",
    "webhooks list": "",
    "webhooks show": "{webhook_id}",
    "webhooks edit": "{webhook_id} --event run.* --disable",
    "webhooks test": "{webhook_id}",
    "webhooks rotate-secret": "{webhook_id}",
    "webhooks remove": "{webhook_id}",
    "hooks add": "payment.received --tenant acme",
    "hooks list": "",
    "hooks show": "{hook_id}",
    "hooks rotate-secret": "{hook_id}",
    "hooks remove": "{hook_id}",
    "tenant add": "globex",
    "tenant list": "",
    "tenant show": "globex",
    "tenant edit": "globex --name Globex",
    "tenant remove": "globex --yes",
    "token add": "--subject box --role host --tenant acme --host box-acme",
    "token list": "--tenant acme",
    "token revoke": "{token_id}",
    "session list": "",
    "session end": "{session_id}",
    "grant enqueue": "atlas_guest --tenant acme --type x.work",
    "grant list": "",
    "grant revoke": "atlas_guest",
    "host add": "box-9 --tenant acme --instance db",
    "host list": "--tenant acme",
    "host edit": "box-9 --tenant acme --name box-10 --disable",
    "host instance edit": "db --tenant acme --name db-2 --host box-acme",
    "host instance remove": "db-2 --tenant acme",
    "host remove": "box-10 --tenant acme",
    "definition add": "{definition_file}",
    "definition list": "",
    "definition show": "say.it",
    "definition edit": "say.it --timeout 9",
    "definition disable": "say.it",
    "audit tail": "--tenant acme -n 5",
    "audit export": "--out {export_file}",
    "audit verify": "",
    "audit proof": "{row_id}",
    "audit status": "",
    "audit seals": "--tenant acme",
    "audit checkpoints": "",
    "audit key": "",
    "audit verifications": "",
    "audit report access": "--month 2026-11",
    "outbox list": "",
    "outbox show": "{mailed_id}",
    "pause": "type EMAIL_SEND --for 2h --reason outage",
    "pauses": "",
    "resume": "type EMAIL_SEND",
    "engine off": "",
    "engine on": "",
    "offline": "--reason disks",
    "online": "",
}
REFUSED = {
    "up": "",
    "api": "",
    "worker": "--all",
    "scheduler": "",
    "migrate": "",
    "backup": "{home}/copy",
    "restore": "{home}/copy",
    "database-url": "",
    "sign-in": "",
    "tenant export": "globex globex.zip",
    "tenant import": "globex.zip",
    "effects reconcile": "stripe",
    "audit forward": "{home}/audit.jsonl",
    "audit erase": "--subject ann@example.com",
    "audit archive": "export.jsonl",
    "audit prune": "--older-than 1d",
    "audit new-epoch": "--reason moved",
}
# They have no database: one uses ATLAS_URL itself, the other measures this machine.
APART = {"agent", "bench"}


def commands(command: Any, *words: str) -> Iterator[str]:
    """The words of a command, or of those below it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(words)
        return
    for name, one in below.items():
        yield from commands(one, *words, name)


def test_every_command_works_over_http_or_is_named_here():
    found = {words for name in COMMANDS for words in commands(load_command(name), name)}
    known = {*WORKING, *REFUSED, *APART}

    assert found - known == set(), "add them to WORKING, with a function for HTTP beside the one for the database"
    assert known - found == set()


@pytest.fixture
async def things(pool, conn, owner, server, settings, database_url, tmp_path) -> dict[str, Any]:
    """A row of every kind, under the names in braces."""
    await owner.execute(MAKE_GUEST)
    await owner.execute("select atlas.grant_enqueue('atlas_guest')")
    await furnish_installation(pool)
    found = await furnish_tenant(pool, server.world.acme)
    await conn.execute(
        """insert into atlas.job_attempts (job_id, attempt_no, worker_id, status, started_at, log_tail)
        values ($1, 1, 'w', 'failed', now(), 'it logged')""",
        found["job_id"],
    )
    failed = await request_workflow(conn, server.world.acme.id, "greet-acme", {}, DANA)
    await take_intents(conn, "tests")
    await conn.execute("update atlas.jobs set status = 'failed', finished_at = now() where id = $1", failed)
    stepped = await request_workflow(conn, server.world.acme.id, "greet-acme", {}, DANA)
    await take_intents(conn, "tests")
    await tick(pool, database_url, limit=10)
    await seal_and_sign(pool, settings)
    files = {
        "workflow_file": {"key": "saved", "steps": [{"id": "wait", "sleep": "10m"}]},
        "definition_file": {"key": "say.it", "argv": ["/bin/echo", "hello"]},
    }
    for name, document in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        found[name] = tmp_path / f"{name}.json"
    done = await enqueue(conn, NewJob("x.work", {}, server.world.acme.id), actor=DANA)
    await conn.execute("update atlas.jobs set status = 'succeeded', finished_at = now() where id = $1", done.id)
    made = {
        "ended_id": done.id,
        "failed_id": failed,
        "stepped_id": stepped,
        "token_id": server.world.ids["acme", "enqueuer"],
        "home": tmp_path / "home",
    }
    mail = outbox_folder(settings.home) / "acme" / f"{failed}.eml"
    mail.parent.mkdir(parents=True)
    mail.write_text("From: a@example.com\nTo: b@example.com\nSubject: Hello\n\nIt works.\n")
    return {**found, **made, "mailed_id": failed, "export_file": tmp_path / "audit.ndjson"}


def arguments(command: str, given: str, things: dict[str, Any]) -> list[str]:
    return [*command.split(), *(word.format(**things) for word in given.split(" ") if word)]


@pytest.mark.long
async def test_every_command_works_on_the_api_alone(remote, things, tmp_path):
    wrong = []
    for command, given in WORKING.items():
        ran = await remote(*arguments(command, given, things), "--json")
        document = json.loads(ran.stdout)
        if ran.code != 0 or not isinstance(document, dict) or "error" in document:
            wrong.append((command, ran.code, ran.stdout[-300:], ran.stderr[-300:]))
    assert wrong == []
    assert not (tmp_path / "home" / "postgres").exists()


async def test_a_command_that_needs_the_database_says_why_and_what_to_do(remote, things, tmp_path):
    for command, given in REFUSED.items():
        ran = await remote(*arguments(command, given, things))
        why, instead = REASONS[command if command in REASONS else command.split()[0]]
        assert ran.refusal.startswith(f"error: `atlas {command.split()[0]}"), command
        assert ran.refusal.endswith(f"does not work over HTTP: {why}. {instead}"), (command, ran.refusal)
    # Options of commands that work without them.
    for words in (["audit", "verify", "--state"], ["audit", "proof", "--from", "1"]):
        assert "does not work over HTTP" in (await remote(*words)).refusal
    assert set(REASONS) - {"audit verify", "audit proof"} <= {*REFUSED, *(name.split()[0] for name in REFUSED)}


async def test_the_beginning_of_an_id_is_enough(remote, things):
    for kind, command in (("run_id", "workflow show"), ("trigger_id", "trigger preview"), ("job_id", "jobs show")):
        whole = await remote(*command.split(), str(things[kind]), "--json")
        begun = await remote(*command.split(), str(things[kind])[:30], "--json")
        assert (begun.code, begun.document) == (0, whole.document), kind


@pytest.mark.long
async def test_a_second_person_decides_with_a_token_of_their_own(atlas, server, conn, tmp_path):
    """The story of a developer who is alone at a machine, as docs/workflows.md tells it."""
    for words in (
        ["workflow", "save", str(flow(tmp_path))],
        ["workflow", "policy", "add", "look", "--effect", "review"],
    ):
        assert (await atlas(*words, "--tenant", "acme")).code == 0
    asked = (await atlas("workflow", "run", "pause", "--tenant", "acme", "--json")).document["id"]
    await take_intents(conn, "tests")
    [approval] = (await atlas("workflow", "approvals", "--json")).document["approvals"]

    refused = await atlas("workflow", "approve", asked)
    assert "requested this and may not decide it." in refused.refusal
    make = "atlas token add --subject NAME --role tenant_admin --tenant acme"
    decide = f"ATLAS_TOKEN=atl_… atlas workflow approve {approval['id']}"
    assert refused.refusal.endswith(f"`{make}`, then `{decide}`.")

    words = make.replace("NAME", "ben").split()[1:]
    token = (await atlas(*words, "--json")).document["token"]
    assert "none runs here" in (await atlas("workflow", "approve", asked, ATLAS_TOKEN=token)).refusal
    with reporting(tmp_path / "home", ["api"], address=server.address) as report:
        report.started("api", os.getpid())
        approved = await atlas("workflow", "approve", asked, "--token", token, "--json")
    assert approved.document == {"id": approval["id"], "run_id": asked, "status": "approved"}
    decided = await conn.fetchval("select decided_by from atlas.approvals where id = $1::uuid", approval["id"])
    assert decided == "ben"


def flow(folder: Path) -> Path:
    file = folder / "pause.json"
    file.write_text(json.dumps({"key": "pause", "steps": [{"id": "wait", "sleep": "10m"}]}))
    return file
