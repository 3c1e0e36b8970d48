"""Commands on records under faults: triggers, webhooks, tokens, grants, hosts, definitions."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from atlas.engine.access.grants import grant_enqueue
from atlas.engine.access.sessions import open_session
from atlas.engine.access.tokens import add_token
from atlas.engine.commands.definitions import add_definition
from atlas.engine.hosts.hosts import add_host
from atlas.engine.hosts.server_instances import add_server_instance
from atlas.engine.tenants.tenants import find_tenant
from atlas.engine.webhooks.inbound import add_hook
from atlas.engine.webhooks.store import add_webhook
from atlas.models.hosts import Host
from tests.cli.conftest import MAKE_GUEST
from tests.engine.triggers.given import given_schedule
from tests.faults.commands import command, exists, give_little, missing
from tests.faults.deliveries import KEY, using_key
from tests.faults.program import Program
from tests.support import DANA

DEFINITION = {"key": "say.it", "argv": ["/bin/echo", "hello"]}
KEYED: dict[str, Any] = {"settings": {"ATLAS_SECRET_KEY_FILE": "secret.key"}, "files": {"secret.key": KEY}}


@contextmanager
def with_key() -> Iterator[None]:
    """What is encrypted here is decrypted by the programs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "secret.key"
        file.write_text(KEY)
        with using_key(file):
            yield


async def give_trigger(conn: Any) -> None:
    await give_little(conn)
    acme = await find_tenant(conn, "acme")
    await given_schedule(conn, acme.id, "@yearly", job_type="a.work")


async def give_webhook(conn: Any) -> None:
    await give_little(conn)
    acme = await find_tenant(conn, "acme")
    with with_key():
        await add_webhook(conn, acme.id, "https://shop.example/atlas", ("job.failed",), actor=DANA)


async def give_hook(conn: Any) -> None:
    await give_little(conn)
    acme = await find_tenant(conn, "acme")
    with with_key():
        await add_hook(conn, acme.id, "paid", actor=DANA)


async def give_token(conn: Any) -> None:
    await give_little(conn)
    await add_token(conn, subject="ada", role="auditor", tenant=await find_tenant(conn, "acme"), actor=DANA)


async def give_session(conn: Any) -> None:
    await give_little(conn)
    acme = await find_tenant(conn, "acme")
    token, _ = await add_token(conn, subject="ada", role="auditor", tenant=acme, actor=DANA)
    await open_session(conn, token, actor=DANA)


async def give_login(conn: Any) -> None:
    await give_little(conn)
    await conn.execute(MAKE_GUEST)


async def give_grant(conn: Any) -> None:
    await give_login(conn)
    acme = await find_tenant(conn, "acme")
    await grant_enqueue(conn, "atlas_guest", tenants=[acme], job_types=["a.work"], actor=DANA)


async def give_host(conn: Any) -> Host:
    await give_little(conn)
    acme = await find_tenant(conn, "acme")
    return await add_host(conn, tenant_id=acme.id, name="box", actor=DANA)


async def give_instance(conn: Any) -> None:
    await add_server_instance(conn, await give_host(conn), name="db", actor=DANA)


async def give_definition(conn: Any) -> None:
    await give_little(conn)
    await add_definition(conn, DEFINITION, actor=DANA)


def on_row(table: str, name: str, verb: str, give: Any, done: str, action: str, **options: Any) -> Program:
    """A command that names the one row of a table."""
    return command(name, verb, give, done, action, names=f"select id from atlas.{table}", **options)


TRIGGERS = (
    on_row(
        "job_triggers",
        "trigger-edit",
        "trigger edit {} --label noon",
        give_trigger,
        exists("job_triggers", "label = 'noon'"),
        "TRIGGER_EDITED",
    ),
    on_row(
        "job_triggers",
        "trigger-remove",
        "trigger remove {}",
        give_trigger,
        exists("job_triggers", "deleted_at is not null"),
        "TRIGGER_REMOVED",
    ),
    on_row("job_triggers", "trigger-fire", "trigger fire {}", give_trigger, exists("jobs"), "TRIGGER_FIRED"),
)
WEBHOOKS = (
    on_row(
        "webhooks",
        "webhook-edit",
        "webhooks edit {} --disable",
        give_webhook,
        exists("webhooks", "not is_enabled"),
        "WEBHOOK_EDITED",
        **KEYED,
    ),
    on_row(
        "webhooks",
        "webhook-rotate",
        "webhooks rotate-secret {}",
        give_webhook,
        exists("audit_log", "action = 'WEBHOOK_SECRET_ROTATED'"),
        "WEBHOOK_SECRET_ROTATED",
        **KEYED,
    ),
    on_row(
        "webhooks",
        "webhook-remove",
        "webhooks remove {}",
        give_webhook,
        missing("webhooks"),
        "WEBHOOK_REMOVED",
        **KEYED,
    ),
    on_row("webhooks", "webhook-test", "webhooks test {}", give_webhook, exists("jobs"), "JOB_CREATED", **KEYED),
    on_row(
        "inbound_hooks",
        "hook-rotate",
        "hooks rotate-secret {}",
        give_hook,
        exists("audit_log", "action = 'HOOK_SECRET_ROTATED'"),
        "HOOK_SECRET_ROTATED",
        **KEYED,
    ),
    on_row(
        "inbound_hooks", "hook-remove", "hooks remove {}", give_hook, missing("inbound_hooks"), "HOOK_REMOVED", **KEYED
    ),
)
ACCESS = (
    on_row(
        "api_tokens",
        "token-revoke",
        "token revoke {}",
        give_token,
        exists("api_tokens", "revoked_at is not null"),
        "TOKEN_REVOKED",
    ),
    on_row(
        "sessions",
        "session-end",
        "session end {}",
        give_session,
        exists("sessions", "ended_at is not null"),
        "SESSION_ENDED",
    ),
    command("sign-in", "sign-in", give_little, exists("sessions", "is_link"), "SIGN_IN_LINK_MADE"),
    command(
        "grant-enqueue",
        "grant enqueue atlas_guest --tenant acme --type a.work",
        give_login,
        exists("enqueue_grants"),
        "ENQUEUE_GRANTED",
    ),
    command("grant-revoke", "grant revoke atlas_guest", give_grant, missing("enqueue_grants"), "ENQUEUE_REVOKED"),
)
MACHINES = (
    command(
        "host-edit",
        "host edit box --tenant acme --disable",
        give_host,
        exists("hosts", "not is_active"),
        "HOST_DISABLED",
    ),
    command("host-remove", "host remove box --tenant acme", give_host, missing("hosts"), "HOST_REMOVED"),
    command(
        "instance-edit",
        "host instance edit db --tenant acme --name db-2",
        give_instance,
        exists("server_instances", "name = 'db-2'"),
        "SERVER_INSTANCE_EDITED",
    ),
    command(
        "instance-remove",
        "host instance remove db --tenant acme",
        give_instance,
        missing("server_instances"),
        "SERVER_INSTANCE_REMOVED",
    ),
    command(
        "definition-add",
        "definition add definition.json",
        give_little,
        exists("job_definitions"),
        "DEFINITION_ADDED",
        files={"definition.json": orjson.dumps(DEFINITION).decode()},
    ),
    command(
        "definition-edit",
        "definition edit say.it --timeout 9",
        give_definition,
        exists("job_definitions", "timeout_seconds = 9"),
        "DEFINITION_EDITED",
    ),
    command(
        "definition-disable",
        "definition disable say.it",
        give_definition,
        exists("job_definitions", "not is_active"),
        "DEFINITION_DISABLED",
    ),
)
RECORD_COMMANDS = (*TRIGGERS, *WEBHOOKS, *ACCESS, *MACHINES)
