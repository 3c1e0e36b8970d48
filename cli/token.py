"""`atlas token`: the credentials of people and programs."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from atlas.cli.durations import parse_duration
from atlas.cli.output import Json, say, table
from atlas.cli.runtime import caller, connected, execute
from atlas.engine.hosts.hosts import find_host
from atlas.engine.tenants import find_tenant
from atlas.engine.tokens import ROLES, Token, add_token, list_tokens, require_own_name, revoke_token
from atlas.settings import Settings

app = typer.Typer(help="The credentials of people and programs.", no_args_is_help=True, add_completion=False)

Expires = Annotated[
    timedelta | None, typer.Option(parser=parse_duration, metavar="DURATION", help="Expires after this time.")
]


@app.command("add")
def add(
    subject: Annotated[str, typer.Option(help="The person or program that acts with it.")],
    role: Annotated[str, typer.Option(help=f"One of {', '.join(ROLES)}.")],
    tenant: Annotated[str | None, typer.Option(help="The tenant it belongs to, by slug or id.")] = None,
    host: Annotated[str | None, typer.Option(help="The host that it is for, by name or id.")] = None,
    expires: Expires = None,
    json: Json = False,
) -> None:
    """Make a token and print it once."""

    async def work(settings: Settings) -> tuple[Token, str]:
        async with connected(settings) as conn:
            owner = None if tenant is None else await find_tenant(conn, tenant)
            if owner is not None:
                await require_own_name(conn, subject)
            machine = (
                None if host is None else await find_host(conn, host, tenant_id=None if owner is None else owner.id)
            )
            return await add_token(
                conn,
                subject=subject,
                role=role,
                tenant=owner,
                scopes={} if machine is None else {"host_id": str(machine.id)},
                expires_at=None if expires is None else datetime.now(UTC) + expires,
                actor=caller(),
            )

    token, clear = execute(work)
    message = f"{clear}\nThe token is not shown again: Atlas only stores its hash."
    say({**asdict(token), "token": clear}, message, json=json)


@app.command("list")
def show(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")] = None,
    json: Json = False,
) -> None:
    """List the tokens, without their secrets."""

    async def work(settings: Settings) -> list[Token]:
        async with connected(settings) as conn:
            return await list_tokens(conn, tenant_id=None if tenant is None else (await find_tenant(conn, tenant)).id)

    tokens = execute(work)
    columns = ("PREFIX", "SUBJECT", "ROLE", "TENANT", "EXPIRES", "LAST USED", "REVOKED")
    rows = [(t.prefix, t.subject, t.role, t.tenant_id, t.expires_at, t.last_used_at, t.revoked_at) for t in tokens]
    say({"tokens": tokens}, table(columns, rows), json=json)


@app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="Its prefix or its id, as `atlas token list` shows them.")],
    json: Json = False,
) -> None:
    """Revoke a token for good."""

    async def work(settings: Settings) -> Token:
        async with connected(settings) as conn:
            return await revoke_token(conn, token, actor=caller())

    revoked = execute(work)
    say(revoked, f"Token {revoked.prefix} of {revoked.subject} is revoked.", json=json)
