"""SQL functions: one file each, in `functions/` beside the verb, installed together.

They are installed again when the hash of the files differs from the one that was recorded, or when a function in the
database differs from what was installed: each is recorded with the hash of its definition.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import orjson

from atlas.db.pool import Connection
from atlas.db.schema import schema_name
from atlas.source import SOURCE

FLOORS = ("audit", "engine", "workers")

# Of the functions in the schema, those that this transaction, or a savepoint of it, did not create or replace: no file
# defines them any more.
_STALE = """
select p.oid::regprocedure::text as signature
from pg_proc p
where p.pronamespace = current_schema()::regnamespace
  and age(p.xmin) > age(pg_current_xact_id()::xid)
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')"""
_OF_THIS_NAME = _STALE + " and p.proname = $1"
_DEFINITIONS = """
select p.oid::regprocedure::text as signature,
  encode(sha256(convert_to(pg_get_functiondef(p.oid), 'UTF8')), 'hex') as digest
from pg_proc p
where p.pronamespace = $1::regnamespace
  and p.prokind in ('f', 'p')
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')"""
_RECORD = """
insert into {schema}.system_state (key, value, updated_by)
values ('functions', jsonb_build_object('sha256', $1::text, 'installed', $2::text::jsonb), 'atlas migrate')
on conflict (key) do update
set value = excluded.value, updated_at = clock_timestamp(), updated_by = excluded.updated_by"""


def function_files() -> list[Path]:
    """The files of all functions: the lower floors first, by name within a floor, whatever folder they are in."""
    floors = [Path(__file__).parent, *(SOURCE / floor for floor in FLOORS)]
    files = [sorted(floor.glob("**/functions/**/*.sql"), key=lambda path: path.name) for floor in floors]
    return [path for paths in files for path in paths]


@cache
def functions_hash() -> str:
    """The SHA-256 of all files together."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in function_files())).hexdigest()


async def functions_are_current(conn: Connection) -> bool:
    """Whether the functions of these files were installed last."""
    return (await _recorded(conn)).get("sha256") == functions_hash()


async def changed_functions(conn: Connection) -> list[str]:
    """The functions that are not as they were installed: changed in the database, dropped, or added there."""
    recorded = await _recorded(conn)
    if "installed" not in recorded:
        return []
    installed, now = recorded["installed"], await _definitions(conn)
    return sorted(name for name in installed.keys() | now.keys() if installed.get(name) != now.get(name))


async def _recorded(conn: Connection) -> dict[str, Any]:
    """What was recorded when the functions were installed; empty before that."""
    schema = schema_name()
    if await conn.fetchval("select to_regclass($1)", f"{schema}.system_state") is None:
        return {}
    recorded = await conn.fetchval(f"select value from {schema}.system_state where key = 'functions'")
    return dict(orjson.loads(recorded)) if recorded is not None else {}


async def _definitions(conn: Connection) -> dict[str, str]:
    """The hash of each function's definition, whose text depends on the search path."""
    async with conn.transaction():
        await conn.execute("set local search_path = pg_catalog")
        return {row["signature"]: row["digest"] for row in await conn.fetch(_DEFINITIONS, schema_name())}


async def install_functions(conn: Connection) -> None:
    """Create or replace every function, drop those that have no file any more, and secure the tables.

    The caller has a transaction whose search path is Atlas's schema.
    """
    # Functions call each other, and files come in no order of dependence. Only what a body after `return` calls has to
    # be there before, and comes earlier by name.
    await conn.execute("set local check_function_bodies = off")
    for path in function_files():
        await _install(conn, path.stem, path.read_text(encoding="utf-8"))
    for row in await conn.fetch(_STALE):
        await conn.execute(f"drop function {row['signature']}")
    await conn.execute("select secure_tables()")
    installed = orjson.dumps(await _definitions(conn)).decode()
    await conn.execute(_RECORD.format(schema=schema_name()), functions_hash(), installed)


async def _install(conn: Connection, name: str, text: str) -> None:
    try:
        await conn.execute(f"savepoint install_function; {text}; release install_function")
    except asyncpg.InvalidFunctionDefinitionError:
        # An earlier version's returns other columns or names its arguments differently: that cannot be replaced.
        await conn.execute("rollback to install_function")
        for row in await conn.fetch(_OF_THIS_NAME, name):
            await conn.execute(f"drop function {row['signature']}")
        await conn.execute(text)
