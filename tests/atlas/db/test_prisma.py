"""The typed client on a held connection: in its transaction, with asyncpg's errors, made and prepared once."""

import ast
import subprocess
import sys

import asyncpg
import pytest

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.prisma import as_json, prisma_on
from tests.pgbouncer import without_pooler
from tests.support import ROOT
from tools.setup import FLOORS

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


@without_pooler("it keeps no prepared statements")
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
    "module", ["atlas.engine.tenants.tenants", "atlas.cli.main", "atlas.cli.access.tenant", "atlas.workers.worker"]
)
def test_the_generated_code_is_imported_by_the_first_call_alone(module):
    loaded = f"import sys, {module}; print('atlas.generated' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).strip() == "False"


@pytest.mark.long
def test_what_only_type_checkers_and_the_generator_read_is_imported_when_it_is_asked_for():
    code = """
import sys
from atlas.prisma import types
asked_by_pytest = hasattr(types, "_mock_name")
before = [asked_by_pytest, len(vars(types)) > 1000, "jinja2" in sys.modules, "prisma" in sys.modules]
from atlas.generated.types import TenantWhereInput
again = types.TenantWhereInput is TenantWhereInput is sys.modules["atlas.generated.types"].TenantWhereInput
import atlas.generated.generator.models
from atlas.generated.generator import Generator
kind = atlas.generated.generator.models.EngineType.__mro__[1]
print(*before, again, hasattr(types, "Nothing"), Generator.__name__, kind.__name__)
"""
    printed = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert printed == ["False", "False", "False", "False", "True", "False", "Generator", "str"]


def test_a_client_that_the_application_generated_stays_its_own(tmp_path):
    (tmp_path / "prisma").mkdir()
    (tmp_path / "prisma" / "__init__.py").write_text("OWNER = 'the application'")
    code = """
import prisma
from atlas import AtlasPrisma
from atlas.prisma import Json
print(prisma.OWNER, Json.__module__, vars(prisma).keys() >= {"models"})
"""
    printed = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=tmp_path, env={"PYTHONPATH": "."})
    assert printed == "the application atlas.generated._fields False\n"


def test_no_module_of_the_application_imports_the_generated_code_with_itself():
    """Commands and workers that make no typed call do not wait for it."""
    sources = [path for floor in ("atlas", *FLOORS) for path in (ROOT / floor).rglob("*.py")]
    own = [ROOT / "atlas" / "prisma.py", ROOT / "engine" / "jobs" / "prisma" / "prisma_client.py"]
    own.append(ROOT / "engine" / "jobs" / "prisma" / "prisma_rules.py")
    found = [
        path.relative_to(ROOT)
        for path in sources
        if path not in own and ROOT / "atlas" / "prisma_client" not in path.parents
        for node in ast.parse(path.read_text()).body
        for name in _imported(node)
        if name.startswith(("prisma", "atlas.generated", "atlas.prisma"))
    ]
    assert found == []


def _imported(node):
    match node:
        case ast.ImportFrom():
            return [node.module or ""]
        case ast.Import():
            return [name.name for name in node.names]
    return []
