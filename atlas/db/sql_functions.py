"""SQL functions: one file each, in `functions/` beside the verb, installed together when their hash changes."""

import hashlib
from functools import cache
from pathlib import Path

import orjson

from atlas.db.pool import Connection
from atlas.db.schema import schema_name
from atlas.source import SOURCE

FLOORS = ("audit", "engine", "workers")

# Of the functions in the schema, those that this transaction did not create or replace: no file defines them any more.
_STALE = """
select p.oid::regprocedure::text as signature
from pg_proc p
where p.pronamespace = current_schema()::regnamespace
  and p.xmin <> pg_current_xact_id()::xid
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')"""
_RECORD = """
insert into system_state (key, value, updated_by)
values ('functions', jsonb_build_object('sha256', $1::text), 'atlas migrate')
on conflict (key) do update
set value = excluded.value, updated_at = clock_timestamp(), updated_by = excluded.updated_by"""


def function_files() -> list[Path]:
    """The files of all functions, the lower floors first."""
    own = sorted((Path(__file__).parent / "functions").glob("*.sql"))
    return own + [path for floor in FLOORS for path in sorted((SOURCE / floor).glob("**/functions/*.sql"))]


@cache
def functions_hash() -> str:
    """The SHA-256 of all files together."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in function_files())).hexdigest()


async def functions_are_current(conn: Connection) -> bool:
    """Whether the installed functions are those of the files."""
    schema = schema_name()
    if await conn.fetchval("select to_regclass($1)", f"{schema}.system_state") is None:
        return False
    recorded = await conn.fetchval(f"select value from {schema}.system_state where key = 'functions'")
    return recorded is not None and orjson.loads(recorded).get("sha256") == functions_hash()


async def install_functions(conn: Connection) -> None:
    """Create or replace every function, drop those that have no file any more, and secure the tables.

    The caller has a transaction whose search path is Atlas's schema.
    """
    # Functions call each other, and files come in no order of dependence.
    await conn.execute("set local check_function_bodies = off")
    for path in function_files():
        await conn.execute(path.read_text(encoding="utf-8"))
    for row in await conn.fetch(_STALE):
        await conn.execute(f"drop function {row['signature']}")
    await conn.execute("select secure_tables()")
    await conn.execute(_RECORD, functions_hash())
