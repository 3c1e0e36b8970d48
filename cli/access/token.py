"""`atlas token`: the credentials of people and programs."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.client_lists import all_of, find_named, row_of, tenant_names, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.durations import parse_duration
from atlas.cli.terminal.output import Json, say, table
from atlas.engine.access.tokens import ROLES
from atlas.models.tenants import Token

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="The credentials of people and programs.", no_args_is_help=True, add_completion=False)

Expires = Annotated[
    timedelta | None, typer.Option(parser=parse_duration, metavar="DURATION", help="Expires after this time.")
]


@app.command("add")
def add(
    subject: Annotated[str, typer.Option(help="The person or program that acts with it.")],
    role: Annotated[str, typer.Option(help=f"One of {', '.join(ROLES)}.")],
    tenant: Annotated[str | None, typer.Option(help="The tenant it belongs to, by slug or id.")] = None,
    host: Annotated[
        str | None, typer.Option(help="The host that it is for, by name or id, or the beginning of its id.")
    ] = None,
    expires: Expires = None,
    json: Json = False,
) -> None:
    """Create a token and print it once."""

    async def work(atlas: "AtlasClient") -> tuple[Token, str, TenantNames]:
        machine = None if host is None else await find_named("host", host, atlas.list_hosts())
        scopes = {} if machine is None else {"host_id": str(machine.id)}
        expires_at = None if expires is None else datetime.now(UTC) + expires
        created = await atlas.create_token(subject, role, scopes=scopes, expires_at=expires_at)
        return row_of(Token, created), created.token, await tenant_names(atlas)

    token, clear, names = on_atlas(work, tenant=tenant)
    message = f"{clear}\nThe token is not shown again: Atlas only stores its hash."
    say({**names.document(token), "token": clear}, message, json=json)


@app.command("list")
def show(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")] = None,
    json: Json = False,
) -> None:
    """List the tokens, without their secrets."""
    tokens, names = with_names(lambda atlas: all_of(atlas.list_tokens()), tenant=tenant)
    columns = ("PREFIX", "SUBJECT", "ROLE", "TENANT", "EXPIRES", "LAST USED", "REVOKED")
    rows = [
        (
            *(token.prefix, token.subject, token.role, names.slug(token.tenant_id)),
            *(token.expires_at, token.last_used_at, token.revoked_at),
        )
        for token in tokens
    ]
    say({"tokens": [names.document(token) for token in tokens]}, table(columns, rows), json=json)


@app.command("revoke")
def revoke(
    token: Annotated[
        str, typer.Argument(help="Its prefix, as `atlas token list` shows it, or its id or the beginning of that.")
    ],
    with_created: Annotated[
        bool,
        typer.Option(
            "--with-created",
            help="Also revoke all tokens created with it, directly or not, and end the secrets of their inbound hooks.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Revoke a token for good."""

    async def work(atlas: "AtlasClient") -> tuple[Token, list[Token], list[str], TenantNames]:
        row = await find_named("token", token, atlas.list_tokens(), name="prefix")
        revoked = await atlas.revoke_token(row.id, with_created=with_created)
        created = [row_of(Token, token) for token in revoked.created]
        hooks = [str(hook_id) for hook_id in revoked.hooks]
        return row_of(Token, revoked), created, hooks, await tenant_names(atlas)

    revoked, created, hooks, names = on_atlas(work)
    lines = [f"Token {token.prefix} of {token.subject} revoked." for token in (revoked, *created)]
    lines += [f"Inbound hook {hook} accepts nothing until `atlas hooks rotate-secret {hook}`." for hook in hooks]
    document = {**names.document(revoked), "created": [names.document(token) for token in created], "hooks": hooks}
    say(document, "\n".join(lines), json=json)
