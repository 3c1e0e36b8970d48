"""Commands under faults: each that writes, with something to do it to, and what is so when it was done."""

from typing import Any
from uuid import UUID
from zipfile import ZipFile

from atlas.db.migrations import pending
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.pauses import pause
from atlas.engine.tenants.tenants import find_tenant
from tests.faults.judge import Evidence, Law
from tests.faults.program import Program
from tests.support import DANA, given_tenant, publish

JOB = UUID("01900000-0000-7000-8000-000000000001")


async def give_little(conn: Any) -> None:
    """A tenant and a job type."""
    await publish(conn, "a.work")
    await given_tenant(conn, "acme")


async def give_job(conn: Any) -> None:
    await give_little(conn)
    await enqueue(conn, NewJob("a.work", {}, id=JOB), actor=DANA)


async def give_canceled(conn: Any) -> None:
    await give_job(conn)
    await cancel(conn, JOB, actor=DANA)


async def give_tenant_job(conn: Any) -> None:
    await give_little(conn)
    acme = await find_tenant(conn, "acme")
    await enqueue(conn, NewJob("a.work", {}, acme.id), actor=DANA)


async def give_pause(conn: Any) -> None:
    await give_little(conn)
    await pause(conn, "tenant", "acme", actor=DANA)


async def archive_is_whole(evidence: Evidence) -> list[str]:
    """What has its final name is complete."""
    file = evidence.home.parent / "acme.zip"
    if not file.exists():
        return ["nothing was exported"]
    with ZipFile(file) as archive:
        damaged = archive.testzip()
    return [] if damaged is None else [f"{damaged} in the exported file is damaged"]


async def is_migrated(conn: Any) -> bool:
    return await pending(conn) == []


def once(action: str) -> Law:
    """The command did what it does one time, and recorded it."""

    async def law(evidence: Evidence) -> list[str]:
        count = await evidence.conn.fetchval("select count(*) from atlas.audit_log where action = $1", action)
        return [] if count == 1 else [f"{count} events {action}"]

    return law


def status_is(status: str) -> str:
    return f"select status = '{status}' from atlas.jobs where id = '{JOB}'"


GATE = "select (value->>'online')::boolean from atlas.system_state where key = 'atlas_online'"
ACME = "slug = 'acme'"


def command(name: str, arguments: str, give: Any, done: str, *actions: str, **options: Any) -> Program:
    """A command that is done when the query is true. Each action happens once, however often it is repeated."""
    laws = (*(once(action) for action in actions), *options.pop("laws", ()))
    return Program(name, tuple(arguments.split()), give, done, laws, **options)


def exists(table: str, condition: str = "true") -> str:
    return f"select exists (select from atlas.{table} where {condition})"


def missing(table: str, condition: str = "true") -> str:
    return f"select not ({exists(table, condition)})"


JOB_COMMANDS = (
    command("enqueue", "enqueue a.work --dedupe-key k", give_little, exists("jobs"), "JOB_CREATED"),
    command("cancel", f"jobs cancel {JOB}", give_job, status_is("canceled"), "JOB_CANCELED"),
    command("retry", f"jobs retry {JOB}", give_canceled, status_is("queued"), "JOB_RETRIED"),
    command("delete", f"jobs delete {JOB}", give_canceled, missing("jobs"), "JOB_DELETED"),
    command("workflow-run", "workflow run w --allow-unknown", give_little, exists("intents")),
    command("event", "event publish paid --tenant acme", give_little, exists("events")),
)
SWITCHES = (
    command("offline", "offline --reason faults", give_little, f"select not ({GATE})", "ATLAS_OFFLINE"),
    command("pause", "pause tenant acme", give_little, exists("pauses")),
    command("resume", "resume tenant acme", give_pause, missing("pauses")),
)
RECORDS = (
    command("tenant-add", "tenant add globex", give_little, exists("tenants", "slug = 'globex'")),
    command("tenant-edit", "tenant edit acme --name Acme", give_little, exists("tenants", "name = 'Acme'")),
    command("tenant-remove", "tenant remove acme --yes", give_little, missing("tenants", ACME)),
    command("token-add", "token add --subject ada --role auditor --tenant acme", give_little, exists("api_tokens")),
    command(
        "host-add",
        "host add box --tenant acme --instance db --instance web",
        give_little,
        "select count(*) = 2 from atlas.server_instances",
        "HOST_ADDED",
    ),
    command(
        "trigger-add", "trigger add --tenant acme --cron @hourly --job-type a.work", give_little, exists("job_triggers")
    ),
    command(
        "webhook-add",
        "webhooks add https://shop.example/atlas --tenant acme --event job.failed",
        give_little,
        exists("webhooks"),
    ),
    command("hook-add", "hooks add paid --tenant acme", give_little, exists("inbound_hooks")),
)
INSTALLATION = (
    command(
        "tenant-export",
        "tenant export acme acme.zip",
        give_tenant_job,
        exists("tenants", f"{ACME} and moving_at is not null"),
        file="acme.zip",
        laws=(archive_is_whole,),
    ),
    command("backup", "backup backup", give_tenant_job, "select true", file="backup/backup.json"),
    Program("migrate", ("migrate",), None, is_migrated),
)
COMMANDS = (*JOB_COMMANDS, *SWITCHES, *RECORDS, *INSTALLATION)
