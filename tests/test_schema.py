"""The migrated database and `schema.prisma` agree, column by column, so that neither can drift. Migrations stay as they are."""

import hashlib
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from atlas.prisma_client.read_schema import load_schema
from atlas.prisma_client.schema import Field, Model, Schema
from tests.pgbouncer import direct_url
from tests.support import ROOT

SCHEMA = load_schema(ROOT / "schema.prisma")
MIGRATIONS = ROOT / "migrations"

COLUMNS = """
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as required,
  case
    when a.attidentity <> '' or pg_get_expr(d.adbin, d.adrelid) like 'nextval(%' then 'autoincrement'
    else pg_get_expr(d.adbin, d.adrelid)
  end as default
from pg_attribute a
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped"""
RELATIONS = """
select relname as name from pg_class
where relnamespace = 'atlas'::regnamespace and relkind in ('r', 'p', 'v') and relname <> '_prisma_migrations'"""
ENUMS = """
select t.typname as name, array_agg(e.enumlabel::text order by e.enumsortorder) as labels
from pg_type t join pg_enum e on e.enumtypid = t.oid
where t.typnamespace = 'atlas'::regnamespace
  and exists (
    select from pg_attribute a join pg_class c on c.oid = a.attrelid
    where a.atttypid = t.oid and c.relkind = 'r')
group by 1"""
FOREIGN_KEYS = """
select array(select attname::text from pg_attribute where attrelid = conrelid and attnum = any(conkey)) as own,
  confrelid::regclass::text as target
from pg_constraint where contype = 'f' and conrelid = $1::text::regclass"""


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[Any]:
    """A connection that may change tables, unlike the programs' role."""
    conn = await asyncpg.connect(direct_url(database_url), server_settings={"search_path": "atlas"})
    yield conn
    await conn.close()


async def differences(conn: Any, schema: Schema) -> list[str]:
    """Where the two disagree, in words. The drawing is built as temporary tables, so that Postgres compares."""
    built_tables, drawn_tables = await relations(conn), {model.table for model in schema.models.values()}
    found = [f"table or view {name} is not in both" for name in sorted(built_tables ^ drawn_tables)]
    built_enums = {row["name"]: row["labels"] for row in await conn.fetch(ENUMS)}
    drawn_enums = {enum.type_name: list(enum.labels.values()) for enum in schema.enums.values()}
    found += different("enum", built_enums, drawn_enums)
    for model in schema.models.values():
        if model.table in built_tables:
            built, drawn = await columns(conn, model.table), await columns_as_drawn(conn, model)
            if model.is_view:
                built, drawn = types_of(built), types_of(drawn)
            found += different(f"column of {model.table}", built, drawn)
    return found


def different(kind: str, built: dict[str, Any], drawn: dict[str, Any]) -> list[str]:
    return [
        f"{kind} {name}: built {built.get(name)}, drawn {drawn.get(name)}"
        for name in sorted(built | drawn)
        if built.get(name) != drawn.get(name)
    ]


async def relations(conn: Any) -> set[str]:
    return {row["name"] for row in await conn.fetch(RELATIONS)}


def types_of(columns: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What a view knows of its columns: neither whether they are null, nor the digits of a computed time."""
    return {name: re.sub(r"\(\d\)", "", column["type"]) for name, column in columns.items()}


async def columns(conn: Any, table: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: dict(row) for row in await conn.fetch(COLUMNS, table)}


async def columns_as_drawn(conn: Any, model: Model) -> dict[str, dict[str, Any]]:
    fields = [field for field in model.fields.values() if field.relation is None]
    await conn.execute(f"create temporary table drawn ({', '.join(map(column_as_drawn, fields))})")
    try:
        return await columns(conn, "pg_temp.drawn")
    finally:
        await conn.execute("drop table pg_temp.drawn")


def column_as_drawn(field: Field) -> str:
    # A list is never null to Prisma.
    required = " not null" if field.required or field.is_list else ""
    kind = f"{field.pg_type}{field.modifier}{'[]' if field.is_list else ''}"
    return f'"{field.column}" {kind}{required}{default_as_drawn(field)}'


def default_as_drawn(field: Field) -> str:
    if field.default is None or field.default.function in ("uuid", "cuid"):
        return ""
    match field.default.function:
        case "autoincrement":
            return " generated always as identity"
        case "now":
            return " default now()"
        case "dbgenerated":
            return f" default {field.default.text}"
        case _:
            quoted = "'" + field.default.text.replace("'", "''") + "'"
            return f" default {field.default.text if field.type in ('Int', 'BigInt', 'Float', 'Boolean') else quoted}"


def test_a_migration_is_never_edited():
    recorded = dict(reversed(line.split()) for line in (MIGRATIONS / "checksums.txt").read_text().splitlines())
    found = {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(MIGRATIONS.glob("*/migration.sql"))
    }

    new = found.keys() - recorded.keys()
    assert not new, f"record what is new: cd migrations && sha256sum {' '.join(sorted(new))} >> checksums.txt"
    edited = sorted(name for name, checksum in recorded.items() if found.get(name) != checksum)
    assert not edited, (
        f"{', '.join(edited)}: databases have this migration as it was. Restore it with `git checkout`, and put the"
        " change into a new migration"
    )


async def test_the_migrated_database_is_what_the_schema_draws(owner):
    assert await differences(owner, SCHEMA) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "drift",
    [
        "create table stray (id int)",
        "drop table atlas.mail_pace",
        "create view atlas.stray as select 1 as id",
        "drop view atlas.job_runs cascade",
        "alter view atlas.audit_entries rename column xid to transaction",
        "alter table atlas.jobs add column extra int",
        "alter table atlas.jobs drop column progress cascade",
        "alter table atlas.jobs rename column priority to urgency",
        "alter table atlas.job_types alter column timeout_seconds type bigint",
        "alter table atlas.tenants alter column created_at type timestamptz(3)",
        "alter table atlas.tenants alter column name drop not null",
        "alter table atlas.tenants alter column timezone set not null, alter column timezone set default 'CET'",
        "alter table atlas.jobs alter column max_retries drop default",
        "alter table atlas.jobs alter column created_at set default now()",
        "alter type job_source add value 'elsewhere'",
    ],
)
async def test_every_kind_of_drift_is_found(owner, drift):
    before = await differences(owner, SCHEMA)
    await owner.execute(drift)

    assert await differences(owner, SCHEMA) != before


async def test_relations_that_hold_a_key_are_foreign_keys(owner):
    for model in SCHEMA.models.values():
        built = {(tuple(row["own"]), row["target"]) for row in await owner.fetch(FOREIGN_KEYS, model.table)}
        drawn = {
            (
                tuple(model.fields[name].column for name in field.relation.own),
                SCHEMA.models[field.relation.target].table,
            )
            for field in model.fields.values()
            if field.relation is not None and field.relation.holds_key
        }
        assert drawn == built, model.table
