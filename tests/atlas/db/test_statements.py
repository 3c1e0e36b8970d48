"""Statements: names become numbers, and nothing that only looks like a name does."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas.db.pool import Pool
from atlas.db.statements import fetch, fetch_row, fetch_value, parse, statement
from atlas.engine.jobs.lists.find import READ
from atlas.engine.jobs.new_jobs.enqueue_call import CALL
from atlas.engine.jobs.new_jobs.new_job_columns import ENQUEUE_MANY
from atlas.source import SOURCE


def test_each_name_gets_one_number_in_the_order_of_its_first_use():
    made = parse("select :b, :a, :b;")

    assert (made.sql, made.names) == ("select $1, $2, $1", ("b", "a"))


def test_a_statement_without_some_of_its_parameters_has_null_in_their_places():
    made = parse("select :b::int, :a, ':b'")

    assert (made.without("b").sql, made.without("b").names) == ("select null::int, $1, ':b'", ("a",))
    assert made.names == ("b", "a")


@pytest.mark.parametrize(
    "text",
    [
        "select 'a :name in a literal'",
        "select 'it''s :name'",
        'select ":name" from t',
        "select 1 -- :name in a comment",
        "select x::text",
        "select a[1:2]",
    ],
)
def test_casts_literals_quoted_names_and_comments_hold_no_parameters(text):
    made = parse(text)

    assert made.names == ()
    assert made.sql == text


def test_a_cast_of_a_parameter_is_both():
    assert parse("select :at::timestamptz").sql == "select $1::timestamptz"


@given(st.lists(st.sampled_from(["a", "b_2", "long_name"]), max_size=8), st.text(alphabet="x' \n\"-:;", max_size=6))
def test_a_literal_never_adds_or_hides_a_parameter(names, inside):
    literal = "'" + inside.replace("'", "''") + "'"
    made = parse(f"select {literal}, " + ", ".join(f":{name}, {literal}" for name in names))

    assert made.names == tuple(dict.fromkeys(names))
    assert made.sql.count(literal) >= len(names) + 1


def test_a_missing_or_unknown_value_is_a_mistake_that_names_the_file():
    made = parse("select :a", "some/file.sql")

    with pytest.raises(TypeError, match=r"some/file\.sql takes \['a'\], was given \['b'\]"):
        made.bind({"b": 1})
    with pytest.raises(TypeError):
        made.bind({"a": 1, "b": 2})


def test_a_file_is_read_once():
    path = "audit/sql/record.sql"

    assert statement(path) is statement(path)


async def test_rows_a_row_and_a_value(conn):
    some = parse("select n from generate_series(1, :last::int) n")
    none = parse("select 1 where :never::boolean")

    assert [row["n"] for row in await fetch(conn, some, last=3)] == [1, 2, 3]
    assert (await fetch_row(conn, some, last=3))["n"] == 1
    assert await fetch_value(conn, some, last=3) == 1
    assert await fetch_row(conn, none, never=False) is None
    assert await fetch_value(conn, none, never=False) is None


async def test_every_statement_of_the_house_is_understood_by_postgres(pool: Pool):
    """Prepared, not run: names, columns and types of all `.sql` files fit the migrated database."""
    floors = ("audit", "engine", "workers", "scheduler", "api", "cli")
    paths = sorted(path for floor in floors for path in (SOURCE / floor).glob("**/sql/*.sql"))
    assert len(paths) > 10
    with_columns = {query.path: query for query in (CALL, ENQUEUE_MANY, READ)}

    async def prepare(path):
        name = str(path.relative_to(SOURCE))
        async with pool.acquire() as conn:
            try:
                await conn.prepare(with_columns.get(name, statement(name)).sql)
            except Exception as error:
                error.add_note(str(path))
                raise

    await asyncio.gather(*map(prepare, paths))
