"""`atlas grant`: what logins of other applications may do in Atlas's schema."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.client_lists import tenant_names, with_names
from atlas.cli.connection.connect import either
from atlas.cli.runtime import caller, open_atlas
from atlas.cli.terminal.output import Json, say, table
from atlas.db.pool import Connection, connect
from atlas.engine.access.grants import grant_enqueue, list_grants, revoke_enqueue
from atlas.engine.tenants.tenants import find_tenant
from atlas.errors import NotFound
from atlas.models.grants import EnqueueGrant
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="What logins of other applications may enqueue.", no_args_is_help=True, add_completion=False)

Login = Annotated[str, typer.Argument(help="The login of the application, as Postgres knows it.")]


@app.command("enqueue")
def enqueue(
    login: Login,
    tenant: Annotated[list[str], typer.Option(help="A tenant it may enqueue for, by slug or id. May be repeated.")],
    type: Annotated[
        list[str],
        typer.Option(help="A job type it may enqueue; `invoice.*` for all that begin so. May be repeated."),
    ],
    json: Json = False,
) -> None:
    """Let a login enqueue jobs in its own transactions. It gets no right to any table of Atlas."""

    async def work(settings: Settings) -> tuple[list[EnqueueGrant], TenantNames]:
        async with _owner(settings) as conn:
            tenants = [await find_tenant(conn, name) for name in tenant]
            await grant_enqueue(conn, login, tenants=tenants, job_types=type, actor=caller())
            grants = await list_grants(conn, login=login)
            return grants, await names_of(conn, grants)

    async def over_http(atlas: "AtlasClient") -> tuple[list[EnqueueGrant], TenantNames]:
        grants = await atlas.create_grants(login, tenants=tenant, job_types=type)
        return grants.grants, await tenant_names(atlas)

    grants, names = either(work, over_http)
    _say(grants, names, f"The login {login} may call atlas.enqueue:", json=json)


@app.command("list")
def show(
    login: Annotated[str | None, typer.Option(help="Only this login.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")] = None,
    json: Json = False,
) -> None:
    """List what the logins of other applications may enqueue."""
    _say(*with_names(lambda atlas: _listed(atlas, login), tenant=tenant), None, json=json)


@app.command("revoke")
def revoke(
    login: Login,
    tenant: Annotated[str | None, typer.Option(help="Only its grants of this tenant, by slug or id.")] = None,
    type: Annotated[str | None, typer.Option(help="Only its grants of this job type, as it was granted.")] = None,
    json: Json = False,
) -> None:
    """Revoke grants of a login: all, or those of a tenant or a job type."""

    async def work(settings: Settings) -> tuple[list[EnqueueGrant], TenantNames]:
        async with _owner(settings) as conn:
            owner = await tenant_id(conn, tenant)
            revoked = await revoke_enqueue(conn, login, tenant_id=owner, job_type=type, actor=caller())
            if not revoked:
                raise _no_grant(login)
            return revoked, await names_of(conn, revoked)

    async def over_http(atlas: "AtlasClient") -> tuple[list[EnqueueGrant], TenantNames]:
        revoked = [grant for grant in await _listed(atlas, login) if type in (None, grant.job_type)]
        if not revoked:
            raise _no_grant(login)
        for grant in revoked:
            await atlas.revoke_grant(grant.id)
        return revoked, await tenant_names(atlas)

    _say(*either(work, over_http, tenant=tenant), f"The login {login} may no longer enqueue:", json=json)


async def _listed(atlas: "AtlasClient", login: str | None) -> list[EnqueueGrant]:
    """The grants in the order that the command shows them."""
    grants = [grant async for grant in (atlas.list_grants() if login is None else atlas.list_grants(login=login))]
    return sorted(grants, key=lambda grant: (grant.login, str(grant.tenant_id), grant.job_type))


def _no_grant(login: str) -> NotFound:
    return NotFound("grant of the login", login, remedy="`atlas grant list` lists the grants.")


@asynccontextmanager
async def _owner(settings: Settings) -> AsyncIterator[Connection]:
    """A connection of the owner of the tables."""
    async with open_atlas(settings, size=1) as atlas:
        conn = await connect(atlas.owner_url, application="atlas grant")
        try:
            yield conn
        finally:
            await conn.close()


def _say(grants: list[EnqueueGrant], names: TenantNames, headline: str | None, *, json: bool) -> None:
    columns = ("LOGIN", "TENANT", "JOB TYPE", "GRANTED BY", "SINCE")
    rows = [
        (grant.login, names.slug(grant.tenant_id), grant.job_type, grant.created_by, grant.created_at)
        for grant in grants
    ]
    lines = [f"  {grant.job_type} for {names.slug(grant.tenant_id)}" for grant in grants]
    text = table(columns, rows) if headline is None else "\n".join([headline, *lines])
    say({"grants": [names.document(grant.model_dump()) for grant in grants]}, text, json=json)
