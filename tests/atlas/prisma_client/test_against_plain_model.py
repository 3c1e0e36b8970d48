"""The compiler against the plain model: random rows, random questions, the same answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prisma import Json

from tests.atlas.prisma_client.plain_model import both, either, matches, negated, ordered, page
from tests.atlas.prisma_client.workshop import Workshop
from tests.support import PROOF

pytestmark = pytest.mark.asyncio(loop_scope="module")


def examples(number: int) -> settings:
    """The same examples in every run; for the proof many more, and new ones."""
    return settings(max_examples=20 * number if PROOF else number, derandomize=not PROOF)


NUMBERS = st.integers(-2, 3)
# Lower-case letters only, so that every collation agrees with Python about their order.
WORDS = st.text("abc", max_size=2)
PIECES = st.sampled_from(["", "a", "b", "%", "_", "\\", "'", "A", "aB", "x"])
COLORS = st.sampled_from(["red", "green", "blue"])
MOMENTS = st.sampled_from([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)])
DOCUMENTS = st.sampled_from([{}, {"a": 1}, [1], "text", None, 0])
TAGS = st.lists(st.sampled_from("xyz"), max_size=3)


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries(
        {
            "small": st.none() | NUMBERS,
            "odd": st.none() | WORDS,
            "flag": st.none() | st.booleans(),
            "color": st.none() | COLORS,
            "atz": st.none() | MOMENTS,
            "doc": st.none() | DOCUMENTS.map(Json),
            "tags": TAGS,
            "code": PIECES,
            "ownerId": st.none() | st.integers(1, 3),
        }
    )
    return st.lists(row, min_size=4, max_size=8)


def some_of(choices: dict[str, st.SearchStrategy[Any]], *, most: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    """A dict of few entries: with many, nothing would be found and nothing tested."""
    entry = st.sampled_from(sorted(choices)).flatmap(lambda name: st.tuples(st.just(name), choices[name]))
    return st.lists(entry, min_size=1, max_size=most, unique_by=lambda pair: pair[0]).map(dict)


def ordered_filter(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    operators = dict.fromkeys(("equals", "lt", "lte", "gt", "gte"), values)
    sets = {name: st.lists(values, max_size=3) for name in ("in", "not_in")}
    simple = some_of({**operators, **sets, "not": st.none() | values})
    nested = some_of({"not": simple, "gt": values})
    return st.one_of(st.none(), values, simple, simple, nested)


def text_filter() -> st.SearchStrategy[Any]:
    operators = dict.fromkeys(("contains", "startswith", "endswith", "equals", "not"), PIECES)
    sets = {name: st.lists(PIECES, max_size=2) for name in ("in", "not_in")}
    simple = some_of({**operators, **sets})
    mode = st.sampled_from([{}, {"mode": "default"}, {"mode": "insensitive"}])
    return st.builds(lambda wanted, mode: {**wanted, **mode}, simple | simple.map(lambda inner: {"not": inner}), mode)


FIELD_FILTERS = {
    "small": ordered_filter(NUMBERS),
    "odd": ordered_filter(WORDS) | text_filter(),
    "flag": st.none() | st.booleans() | some_of({"not": st.none() | st.booleans()}),
    "color": st.none() | COLORS | some_of({"not": COLORS, "in": st.lists(COLORS), "not_in": st.lists(COLORS)}),
    "atz": ordered_filter(MOMENTS),
    "code": text_filter(),
    "tags": some_of({"has": st.sampled_from("xyz"), "has_every": TAGS, "has_some": TAGS, "is_empty": st.booleans()}),
    "doc": st.none() | DOCUMENTS.map(Json) | some_of({"not": DOCUMENTS.map(Json)}),
}
LEAVES = some_of(FIELD_FILTERS)
WHERES = st.recursive(
    LEAVES,
    lambda inner: some_of(
        {
            "AND": inner | st.lists(inner, max_size=2),
            "OR": st.lists(inner, max_size=3),
            "NOT": inner | st.lists(inner, max_size=2),
            **FIELD_FILTERS,
        }
    ),
    max_leaves=6,
)
SORTS = st.lists(
    st.tuples(
        st.sampled_from(["small", "odd", "flag", "color", "atz", "id"]),
        st.sampled_from(["asc", "desc"]),
        st.sampled_from([None, "first", "last"]),
    ),
    max_size=3,
    unique_by=lambda sort: sort[0],
)
PAGES = st.fixed_dictionaries(
    {},
    optional={
        "take": st.integers(-4, 4),
        "skip": st.integers(0, 3),
        "cursor": st.integers(1, 6),
        "distinct": st.lists(st.sampled_from(["small", "odd", "flag", "color"]), min_size=1, max_size=2, unique=True),
    },
)


@asynccontextmanager
async def example(
    workshop: Workshop, given: list[dict[str, Any]]
) -> AsyncIterator[tuple[Workshop, list[dict[str, Any]]]]:
    """The rows in the database and in the plain model, for one example; afterwards they were never there."""
    manager = workshop.client.tx(timeout=timedelta(seconds=60))
    inside = Workshop(await manager.start())
    try:
        yield inside, await insert(inside, given)
    finally:
        await manager.rollback()


def plain(row: dict[str, Any], number: int) -> dict[str, Any]:
    """The row as the plain model holds it."""
    return {**row, "id": number, "doc": JsonText(row["doc"]) if row["doc"] is not None else None}


class JsonText:
    """A document that is equal to another, or to a Json wrapper, with the same content."""

    def __init__(self, wrapper: Json) -> None:
        self.data = wrapper.data

    def __eq__(self, other: object) -> bool:
        return same(self.data, other.data)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return 0


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


async def insert(workshop: Workshop, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write the rows with ids from 1 on, and their owners; return them for the plain model."""
    await workshop.person.create_many([{"id": number, "name": f"p{number}"} for number in (1, 2, 3)])
    made = [{**row, "id": number, "code": f"{number}{row['code']}"} for number, row in enumerate(given, 1)]
    await workshop.gadget.create_many(made)
    return [plain(row, row["id"]) for row in made]


def order_of(sorts: list[tuple[str, str, str | None]]) -> list[dict[str, Any]]:
    return [{field: {"sort": sort, "nulls": nulls} if nulls else sort} for field, sort, nulls in sorts]


def keys_of(sorts: list[tuple[str, str, str | None]]) -> list[tuple[str, bool, bool]]:
    return [(field, sort == "desc", (nulls == "first") if nulls else sort == "desc") for field, sort, nulls in sorts]


@examples(120)
@given(given_rows=rows(), where=WHERES)
async def test_a_filter_finds_what_the_plain_model_finds(workshop, given_rows, where):
    async with example(workshop, given_rows) as (inside, held):
        expected = {row["id"] for row in held if matches(row, where) is True}
        assert {row.id for row in await inside.gadget.find_many(where=where)} == expected
        assert await inside.gadget.count(where=where) == len(expected)
        denied = {row["id"] for row in held if matches(row, {"NOT": [{"AND": [where]}]}) is True}
        assert {row.id for row in await inside.gadget.find_many(where={"NOT": [{"AND": [where]}]})} == denied
        assert await inside.gadget.update_many(where=where, data={"big": 1}) == len(expected)
        assert await inside.gadget.delete_many(where=where) == len(expected)


@examples(250)
@given(given_rows=rows(), where=st.just({}) | LEAVES, sorts=SORTS, arguments=PAGES)
async def test_a_page_has_the_rows_and_the_order_of_the_plain_model(workshop, given_rows, where, sorts, arguments):
    async with example(workshop, given_rows) as (inside, held):
        cursor = {"cursor": {"id": arguments["cursor"]}} if "cursor" in arguments else {}
        asked = {**arguments, **cursor, "where": where, "order": order_of(sorts)}
        found = [row.id for row in await inside.gadget.find_many(**asked)]
        expected = [row["id"] for row in page(held, where, keys_of(sorts), **arguments)]
        if arguments:
            assert found == expected
        else:  # rows that are equal in the given order may come in any
            assert sorted(found) == sorted(expected)
            by_id = {row["id"]: row for row in held}
            shown = [[by_id[number][field] for field, _, _ in sorts] for number in found]
            assert shown == [[by_id[number][field] for field, _, _ in sorts] for number in expected]


@examples(60)
@given(
    given_rows=rows(), by=st.lists(st.sampled_from(["odd", "flag", "color"]), min_size=1, unique=True), limit=NUMBERS
)
async def test_groups_are_those_of_the_plain_model(workshop, given_rows, by, limit):
    async with example(workshop, given_rows) as (inside, held):
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for row in held:
            groups.setdefault(tuple(row[name] for name in by), []).append(row["small"])
        expected = []
        for key, values in groups.items():
            set_values = [value for value in values if value is not None]
            if sum(set_values) >= limit and set_values:
                expected.append((key, len(values), len(set_values), sum(set_values), min(set_values)))
        found = await inside.gadget.group_by(
            by,
            count={"_all": True, "small": True},
            sum={"small": True},
            min={"small": True},
            having={"small": {"_sum": {"gte": limit}}},
        )
        shown = [
            (
                tuple(group[name] for name in by),
                group["_count"]["_all"],
                group["_count"]["small"],
                group["_sum"]["small"],
                group["_min"]["small"],
            )
            for group in found
        ]
        assert sorted(shown, key=str) == sorted(expected, key=str)


RELATED = some_of(dict.fromkeys(("some", "every", "none"), LEAVES))


@examples(100)
@given(given_rows=rows(), lists=RELATED, one=st.none() | LEAVES, absent=st.booleans())
async def test_a_filter_over_a_relation_finds_what_the_plain_model_finds(workshop, given_rows, lists, one, absent):
    async with example(workshop, given_rows) as (inside, held):
        people = await inside.person.find_many(where={"gadgets": lists})
        assert {person.id for person in people} == {number for number in (1, 2, 3) if owns(held, number, lists)}
        name = "is_not" if absent else "is"
        wanted = None if one is None else {"gadgets": {"some": one}}
        found = {gadget.id for gadget in await inside.gadget.find_many(where={"owner": {name: wanted}})}
        assert found == {row["id"] for row in held if is_owned(held, row, one) != absent}


def owns(held: list[dict[str, Any]], owner: int, lists: dict[str, Any]) -> bool:
    truths = [[matches(row, tree) for row in held if row["ownerId"] == owner] for tree in lists.values()]
    checks = {
        "some": lambda found: True in found,
        "none": lambda found: True not in found,
        "every": lambda found: False not in found,
    }
    return all(checks[name](found) for name, found in zip(lists, truths, strict=True))


def is_owned(held: list[dict[str, Any]], row: dict[str, Any], one: Any) -> bool:
    if one is None:
        return row["ownerId"] is None
    return row["ownerId"] is not None and owns(held, row["ownerId"], {"some": one})


async def test_the_plain_model_knows_sqls_logic():
    assert [both(True, None), both(False, None), either(True, None), either(False, None), negated(None)] == [
        None,
        False,
        True,
        None,
        None,
    ]
    rows = [{"id": 1, "x": 2}, {"id": 2, "x": None}, {"id": 3, "x": 1}]
    assert [row["id"] for row in ordered(rows, [("x", True, True)])] == [2, 1, 3]
