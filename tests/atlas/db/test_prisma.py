"""The typed client on a held connection: in its transaction, with asyncpg's errors, made and prepared once."""

import ast
import subprocess
import sys

import asyncpg
import pytest

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.cli.setup import FLOORS
from atlas.db.prisma import as_json, prisma_on
from tests.support import ROOT

DANA = Actor("user", "dana")


async def test_a_typed_write_and_its_audit_row_are_rolled_back_together(conn):
    transaction = conn.transaction()
    await transaction.start()
    made = await prisma_on(conn).tenant.create({"slug": "acme", "name": "Acme", "limits": as_json({"in_flight": 2})})
    await record(conn, Event("TENANT_ADDED", "tenant", made.id, DANA, made.id, meta={}))
    assert made.limits == {"in_flight": 2}
    assert await conn.fetchval("select count(*) from atlas.audit_log where entity_id = $1", made.id) == 1
    await transaction.rollback()

    assert await prisma_on(conn).tenant.count(where={"slug": "acme"}) == 0
    assert await conn.fetchval("select count(*) from atlas.audit_log where entity_id = $1", made.id) == 0


async def test_errors_of_the_database_are_those_of_every_other_statement(conn):
    with pytest.raises(asyncpg.UniqueViolationError):
        await prisma_on(conn).tenant.create({"slug": "system", "name": "Another"})
    async with conn.transaction():
        await conn.execute("set local role atlas_tenant")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await prisma_on(conn).session.find_many()


async def test_a_statement_is_prepared_once_however_many_clients_are_made(conn):
    for slug in ("a", "b", "c"):
        await prisma_on(conn).tenant.find_unique(where={"slug": slug})
        await prisma_on(conn).tenant.find_many(5, where={"slug": {"gt": slug}}, order={"slug": "asc"})
    prepared = await conn.fetch("select statement from pg_prepared_statements where statement like 'select t0.%'")
    assert len(prepared) == 2


async def test_a_model_that_does_not_exist_is_named(conn):
    with pytest.raises(AttributeError, match="no attribute 'tenants'"):
        prisma_on(conn).tenants  # noqa: B018


@pytest.mark.parametrize(
    "module", ["atlas.engine.tenants", "atlas.cli.main", "atlas.cli.tenant", "atlas.workers.worker"]
)
def test_the_generated_code_is_imported_by_the_first_call_alone(module):
    loaded = f"import sys, {module}; print('prisma' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).strip() == "False"


def test_types_that_only_type_checkers_read_are_made_when_one_is_asked_for():
    code = """
from atlas.db.prisma import load_client
load_client()
import prisma, sys
made = len(vars(prisma.types)) > 1000
from prisma.types import TenantWhereInput
again = prisma.types.TenantWhereInput is TenantWhereInput is sys.modules["prisma.types"].TenantWhereInput
print(made, again, hasattr(prisma.types, "Nothing"))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "True", "False"]


def test_no_module_of_the_application_imports_the_generated_code_with_itself():
    """Commands and workers that make no typed call do not wait for it."""
    sources = [path for floor in ("atlas", *FLOORS) for path in (ROOT / floor).rglob("*.py")]
    own = [ROOT / "engine" / "jobs" / name for name in ("prisma_client.py", "prisma_rules.py")]
    found = [
        path.relative_to(ROOT)
        for path in sources
        if path not in own and ROOT / "atlas" / "prisma_client" not in path.parents
        for node in ast.parse(path.read_text()).body
        for name in _imported(node)
        if name.split(".")[0] == "prisma" or name.startswith("atlas.prisma_client")
    ]
    assert found == []


def _imported(node):
    match node:
        case ast.ImportFrom():
            return [node.module or ""]
        case ast.Import():
            return [name.name for name in node.names]
    return []
