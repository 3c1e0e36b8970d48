"""What every command needs: above all, a login on the embedded server that owns nothing."""

import asyncio

import asyncpg
import pytest

from atlas.cli import runtime
from atlas.cli.runtime import connected, open_atlas
from atlas.db import migrations, operator_connections, pool
from atlas.db.pool import connect
from atlas.errors import DatabaseUnreachable
from atlas.settings import Settings
from tests.proxy import FaultyProxy

POWERS = (
    "alter table atlas.audit_log disable trigger all",
    "update atlas.audit_log set message = 'x'",
    "drop table atlas.jobs",
    "create or replace function atlas.audit_is_append_only() returns trigger language plpgsql as 'begin return null; end'",
    "set role atlas_owner",
    "select atlas.audit_prune(1, 'user', 'x', '{}')",
)


@pytest.mark.long
async def test_the_programs_of_an_embedded_server_own_nothing_and_its_owner_does_what_they_may_not(tmp_path):
    settings = Settings(atlas_home=tmp_path / "home")
    async with open_atlas(settings, migrate=True) as atlas:
        async with atlas.pool.acquire() as conn:
            assert tuple(await conn.fetchrow("select session_user, current_user")) == ("atlas_app", "atlas_engine")
        direct = await connect(atlas.url)
        for power in POWERS:
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedFunctionError)):
                await direct.execute(power)
        await direct.close()
        owner = await connect(atlas.owner_url)
        await owner.execute("alter table atlas.audit_log disable trigger user")
        await owner.close()
    async with open_atlas(settings, migrate=True):  # once more, with nothing to do
        pass


async def test_a_program_whose_first_statements_get_no_response_ends_with_an_error(tmp_path, database_url, monkeypatch):
    monkeypatch.setattr(pool, "TRANSACTION_SECONDS", 0.5)
    monkeypatch.setattr(operator_connections, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(pool, "RELEASE_SECONDS", 0.2)
    for module, name in ((pool, "_options_for"), (operator_connections, "fetch_value")):
        ask = getattr(module, name)

        async def freeze(*arguments, ask=ask):
            proxy.silent = True
            return await ask(*arguments)

        async with FaultyProxy(database_url) as proxy, asyncio.timeout(30):
            settings = Settings(atlas_home=tmp_path / "home", database_url=proxy.url)
            with monkeypatch.context() as frozen:
                frozen.setattr(module, name, freeze)
                with pytest.raises(DatabaseUnreachable):
                    async with open_atlas(settings, program=True):
                        raise AssertionError("it has begun")


async def test_a_server_that_freezes_after_it_was_connected_ends_the_command(tmp_path, database_url, monkeypatch):
    monkeypatch.setattr(runtime, "STATEMENT_SECONDS", 0.5)
    monkeypatch.setattr(pool, "RELEASE_SECONDS", 0.2)
    pending = migrations.pending

    async def frozen(conn):
        proxy.silent = True
        return await pending(conn)

    async with FaultyProxy(database_url) as proxy:
        settings = Settings(atlas_home=tmp_path / "home", database_url=proxy.url)
        with pytest.raises(DatabaseUnreachable, match="is connected and does not respond"):
            async with connected(settings) as conn:
                proxy.silent = True
                await conn.fetchval("select 1")
        proxy.silent = False
        monkeypatch.setattr(migrations, "pending", frozen)
        with pytest.raises(DatabaseUnreachable, match="is connected and does not respond"):
            async with connected(settings):
                raise AssertionError("it was not asked")
