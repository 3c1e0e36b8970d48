"""An API on a fresh database, and a token for every role."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI

from atlas.api.app import create_app
from atlas.api.limits.rates import Rates
from atlas.db.pool import Pool, open_pool
from atlas.engine.access.tokens import ROLES, add_token
from atlas.engine.hosts.hosts import add_host
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.tenants.tenants import add_tenant
from atlas.logs import configure_logs
from atlas.models.hosts import Host
from atlas.models.tenants import Tenant
from atlas.settings import Settings
from atlas.test_databases import TestDatabases
from atlas.workers.tick import tick
from tests.api.serving import Served, served
from tests.support import DANA, publish

# Fast enough for a test that asks a thousand times.
QUICK = Rates(token=1e6, tenant=1e6, agents=1e6, failures=1e6, max_failures=1e6)


@pytest.fixture(autouse=True, scope="session")
def quiet() -> None:
    """Do not log every request of the tests."""
    configure_logs("error")


@dataclass
class World:
    """Two tenants, and a token of each role: `tokens["acme", "tenant_admin"]`; operators and auditors under `all`."""

    app: FastAPI
    acme: Tenant
    other: Tenant
    tokens: dict[tuple[str, str], str] = field(default_factory=dict)
    ids: dict[tuple[str, str], UUID] = field(default_factory=dict)
    # The machine of each tenant's token of the role host.
    hosts: dict[str, Host] = field(default_factory=dict)

    def headers(self, tenant: str, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[tenant, role]}"}

    def client(self, tenant: str = "all", role: str = "operator") -> httpx.AsyncClient:
        """A client that acts as that role; close it or not, it holds nothing."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=("10.1.2.3", 4711))
        return httpx.AsyncClient(
            transport=transport, base_url="http://atlas.test/api/v1", headers=self.headers(tenant, role)
        )


async def furnish(pool: Pool, app: FastAPI) -> World:
    """Tenants, tokens and an open gate; those of the template, where the database is a copy of it."""
    if _template and await pool.fetchval("select exists (select from atlas.tenants where slug = 'acme')"):
        [one] = _template
        return replace(one, app=app, tokens={**one.tokens}, ids={**one.ids}, hosts={**one.hosts})
    return await furnish_anew(pool, app)


async def furnish_anew(pool: Pool, app: Any) -> World:
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=DANA)
        await publish(conn, "a.work", "b.work", "x", "x.work", "y", "y.work")
        acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
        other = await add_tenant(conn, slug="other", name="Other", actor=DANA)
        world = World(app, acme, other)
        for tenant in (acme, other):
            host = await add_host(conn, tenant_id=tenant.id, name=f"box-{tenant.slug}", actor=DANA)
            world.hosts[tenant.slug] = host
            for role in ROLES:
                if role != "operator":
                    scopes = {"host_id": str(host.id)} if role == "host" else {}
                    subject = f"{role}@{tenant.slug}"
                    token, clear = await add_token(
                        conn, subject=subject, role=role, tenant=tenant, scopes=scopes, actor=DANA
                    )
                    world.tokens[tenant.slug, role], world.ids[tenant.slug, role] = clear, token.id
        for role in ("operator", "auditor"):
            token, clear = await add_token(conn, subject=f"{role}@all", role=role, actor=DANA)
            world.tokens["all", role], world.ids["all", role] = clear, token.id
    return world


# What the databases of these tests are copied from has.
_template: list[World] = []


@pytest.fixture(scope="session")
def furnished(databases: TestDatabases) -> str:
    """The name of a database that is furnished: a copy of it takes a tenth of the time of furnishing another one."""

    async def fill(url: str) -> None:
        pool = await open_pool(url, size=1)
        _template.append(await furnish_anew(pool, None))
        await pool.close()

    return asyncio.run(databases.add_template(fill))


@pytest.fixture
async def database_url(databases: TestDatabases, furnished: str) -> AsyncIterator[str]:
    """The address of a fresh database that is furnished."""
    async with databases.copy(furnished) as url:
        yield url


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[FastAPI]:
    """The application with its background tasks."""
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
def settings(tmp_path: Any) -> Settings:
    """Settings of an installation with a home of its own."""
    return Settings(atlas_home=tmp_path / "home", database_url=None)


@pytest.fixture
async def world(pool: Pool, database_url: str, settings: Settings) -> AsyncIterator[World]:
    """An API and everyone who may call it."""
    app = create_app(settings, pool, database_url, rates=QUICK, tick=tick)
    async with running(app):
        yield await furnish(pool, app)


@pytest.fixture
def operator(world: World) -> httpx.AsyncClient:
    return world.client()


@pytest.fixture
def admin(world: World) -> httpx.AsyncClient:
    return world.client("acme", "tenant_admin")


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[Any], Any]]:
    """Enter contexts that last until the test ends."""
    async with AsyncExitStack() as stack:
        yield stack.enter_async_context


@pytest.fixture
async def server(pool: Pool, database_url: str, settings: Settings) -> AsyncIterator[Served]:
    """A server on loopback; `server.world` has its tenants and tokens."""
    with served(database_url, settings, QUICK, tick=tick) as started:
        started.world = await furnish(pool, create_app(settings, pool, database_url))
        yield started
