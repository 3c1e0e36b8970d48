"""Every type there and back, and the filters that make sense on it."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from atlas.generated import Base64, Json
from atlas.generated.errors import DataError, FieldNotFoundError, MissingRequiredValueError
from atlas.prisma_client import UnsupportedQuery
from tests.support import some

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)
REF = "0190f3c4-7d2e-7c11-8a55-0123456789ab"
OTHER = "0290f3c4-7d2e-7c11-8a55-0123456789ab"

ROUND_TRIPS = [
    ("flag", True, True),
    ("small", -(2**15), -(2**15)),
    ("big", 2**63 - 1, 2**63 - 1),
    ("ratio", 0.1 + 0.2, 0.1 + 0.2),
    ("ratio", float("inf"), float("inf")),
    ("ratio", 3, 3.0),
    ("single", 1.5, 1.5),
    ("price", Decimal("123456789.125"), Decimal("123456789.125")),
    ("price", 7, Decimal(7)),
    ("at", NOON, NOON.replace(microsecond=123000)),
    ("at", NOON.replace(tzinfo=None), NOON.replace(microsecond=123000)),
    ("atz", NOON, NOON),
    ("atz", NOON.astimezone(timezone(timedelta(hours=-5))), NOON),
    ("atz", NOON.replace(tzinfo=None), NOON),
    ("atz", "2024-02-29T13:00:00.123456+01:00", NOON),
    ("day", NOON, datetime(2024, 2, 29, tzinfo=UTC)),
    ("doc", Json({"a": [1, None, "ü\"'"], "b": {"c": 1.5}}), {"a": [1, None, "ü\"'"], "b": {"c": 1.5}}),
    ("doc", Json("text"), "text"),
    ("doc", Json(None), None),
    ("doc", Json([]), []),
    ("doc", Json({"at": NOON, "price": Decimal("1.50")}), {"at": NOON.isoformat(), "price": "1.50"}),
    ("textDoc", Json({"b": 1, "a": 2}), {"b": 1, "a": 2}),
    ("blob", Base64.encode(bytes(range(256))), Base64.encode(bytes(range(256)))),
    ("blob", Base64.encode(b""), Base64.encode(b"")),
    ("ref", REF, REF),
    ("ref", REF.upper(), REF),
    ("ref", UUID(REF), REF),
    ("letters", "ab", "ab "),
    ("odd", "'; drop table atlas.jobs; --", "'; drop table atlas.jobs; --"),
    ("odd", "emoji 🦄, tab\t, newline\n, backslash \\", "emoji 🦄, tab\t, newline\n, backslash \\"),
    ("color", "red", "red"),
    ("color", "blue", "blue"),
    ("colors", ["green", "red", "blue"], ["green", "red", "blue"]),
    ("tags", ["a,b", "{c}", '"d"', "null", ""], ["a,b", "{c}", '"d"', "null", ""]),
    ("tags", {"set": ["x"]}, ["x"]),
    ("numbers", [], []),
    ("refs", [OTHER, REF], [OTHER, REF]),
    ("docs", [Json({"a": 1}), Json([2])], [{"a": 1}, [2]]),
]


@pytest.mark.parametrize(("field", "given", "read"), some(ROUND_TRIPS, every=2))
async def test_a_value_comes_back_as_it_was_given(workshop, field, given, read):
    made = await workshop.gadget.create({"code": "g", field: given})
    assert getattr(made, field) == read
    assert getattr(await workshop.gadget.find_unique(where={"code": "g"}), field) == read


@pytest.mark.parametrize(("field", "given", "read"), some(ROUND_TRIPS, every=4))
async def test_a_value_comes_back_through_an_include(workshop, field, given, read):
    person = await workshop.person.create({"name": "Ada"})
    await workshop.gadget.create({"code": "g", "ownerId": person.id, field: given})
    [gadget] = (await workshop.person.find_first(include={"gadgets": True})).gadgets
    assert getattr(gadget, field) == read


async def test_every_optional_field_can_be_null(workshop):
    optional = ["flag", "small", "big", "ratio", "single", "price", "at", "atz", "day", "doc", "textDoc", "blob"]
    optional += ["ref", "letters", "odd", "color", "ownerId"]
    made = await workshop.gadget.create({"code": "g", **dict.fromkeys(optional)})
    assert {name: getattr(made, name) for name in optional} == dict.fromkeys(optional)
    for name in optional:
        assert await workshop.gadget.count(where={name: None}) == 1
        assert await workshop.gadget.count(where={name: {"equals": None}}) == 1
        assert await workshop.gadget.count(where={name: {"not": None}}) == 0
        assert await workshop.gadget.count(where={"NOT": {name: None}}) == 0


async def test_lists_left_out_are_empty_or_the_default(workshop):
    made = await workshop.gadget.create({"code": "g"})
    assert made.tags == ["new"]
    # As in Prisma they are null in the database, and the generated models read that as empty.
    assert not any((made.numbers, made.colors, made.docs))


FILTERS = [
    # field, the value held, filters that find it, filters that do not
    ("flag", True, [True, {"equals": True}, {"not": False}], [False, {"not": True}]),
    ("small", 5, [5, {"gt": 4}, {"gte": 5, "lte": 5}, {"in": [1, 5]}], [{"lt": 5}, {"not_in": [5]}, {"in": []}]),
    ("big", 2**40, [{"gt": 2**39}, {"not_in": []}], [{"lte": 7}, {"gt": 2**40, "lt": 2**50}]),
    ("ratio", 0.1, [0.1, {"lt": 0.2}, {"in": [0.1]}], [{"not": 0.1}]),
    ("single", 0.1, [0.1, {"in": [0.1]}], [{"gt": 0.1}]),
    ("price", Decimal("1.5"), [Decimal("1.50"), {"gte": Decimal("1.5")}], [{"in": [Decimal("1.501")]}]),
    ("at", NOON, [NOON, {"equals": NOON}, {"in": [NOON]}], [{"lt": NOON}]),
    ("atz", NOON, [NOON, {"gte": NOON}], [{"gt": NOON}, {"not": NOON}]),
    ("day", NOON, [NOON, NOON + timedelta(hours=2), {"lt": NOON + timedelta(days=1)}], [{"lt": NOON}]),
    ("doc", Json({"a": 1, "b": 2}), [Json({"b": 2, "a": 1}), {"not": Json({})}], [{"equals": Json({"a": 1})}]),
    ("doc", Json(None), [Json(None), {"equals": Json(None)}, {"not": None}], [None, {"not": Json(None)}]),
    ("textDoc", Json({"a": [1]}), [Json({"a": [1]}), {"not": Json([1])}], [Json({})]),
    (
        "blob",
        Base64.encode(b"\x00\xff"),
        [Base64.encode(b"\x00\xff"), {"in": [Base64.encode(b"\x00\xff")]}, {"not": Base64.encode(b"")}],
        [{"not_in": [Base64.encode(b"\x00\xff")]}],
    ),
    ("ref", REF, [REF, {"in": [REF, OTHER]}, {"startswith": "0190"}, {"lt": OTHER}], [{"not": REF}, {"gt": OTHER}]),
    ("ref", REF, [{"equals": REF.upper(), "mode": "insensitive"}, {"contains": "7D2E", "mode": "insensitive"}], []),
    ("letters", "ab", ["ab", {"in": ["ab", "cd"]}], ["abc"]),
    ("color", "blue", ["blue", {"in": ["red", "blue"]}, {"not": "red"}], [{"not_in": ["blue"]}, "red"]),
    ("colors", ["red", "blue"], [{"has": "blue"}, {"equals": ["red", "blue"]}], [{"has": "green"}]),
    (
        "tags",
        ["a", "b"],
        [
            {"has": "a"},
            {"has_every": ["b", "a"]},
            {"has_some": ["z", "b"]},
            {"is_empty": False},
            {"equals": ["a", "b"]},
        ],
        [{"has": "A"}, {"has_every": ["a", "z"]}, {"has_some": []}, {"is_empty": True}, {"equals": ["b", "a"]}],
    ),
    ("numbers", [], [{"is_empty": True}, {"has_every": []}, {"equals": []}], [{"has_some": [1]}, {"has": 0}]),
    ("refs", [REF], [{"has": REF}, {"hasSome": [REF, OTHER]}], [{"has": OTHER}]),
    ("docs", [Json({"a": 1})], [{"has": Json({"a": 1})}], [{"has": Json({})}]),
]


@pytest.mark.parametrize(("field", "held", "hits", "misses"), some(FILTERS, every=2))
async def test_a_filter_finds_what_it_should(workshop, field, held, hits, misses):
    await workshop.gadget.create({"code": "g", field: held})
    for wanted in hits:
        assert await workshop.gadget.count(where={field: wanted}) == 1, wanted
        assert await workshop.gadget.count(where={"NOT": [{field: wanted}]}) == 0, wanted
    for wanted in misses:
        assert await workshop.gadget.count(where={field: wanted}) == 0, wanted


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("flag", 1),
        ("small", True),
        ("small", "5"),
        ("small", 5.0),
        ("big", Decimal(5)),
        ("ratio", "0.1"),
        ("price", "a lot"),
        ("at", "yesterday"),
        ("atz", NOON.date()),
        ("doc", {"a": 1}),
        ("doc", '{"a": 1}'),
        ("doc", Json({"a": float("nan")})),
        ("doc", Json({"a": object()})),
        ("blob", b"bytes"),
        ("blob", Base64(b"not base64!")),
        ("ref", "not a uuid"),
        ("ref", 5),
        ("odd", 5),
        ("odd", b"text"),
        ("color", "GREEN"),
        ("color", "purple"),
        ("tags", "a"),
        ("tags", [1]),
        ("tags", ["a", None]),
    ],
)
async def test_a_value_of_the_wrong_kind_is_refused_with_the_name_of_its_field(workshop, field, wrong):
    code = "P2023" if wrong == "not a uuid" else "P2012" if wrong == ["a", None] else "P2009"
    with pytest.raises(DataError, match=f"`Gadget.{field}") as create:
        await workshop.gadget.create({"code": "g", field: wrong})
    assert create.value.code == code
    if not isinstance(wrong, dict):
        with pytest.raises(DataError, match=rf"Gadget\.{field}") as count:
            await workshop.gadget.count(where={field: wrong})
        assert count.value.code in (code, "P2009")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("small", 2**15),
        ("big", 2**63),
        ("odd", "a\0b"),
        ("odd", "\ud800"),
        ("doc", Json("\0")),
        ("price", Decimal("1e12")),
    ],
)
async def test_a_value_that_postgres_cannot_hold_is_a_data_error(workshop, field, value):
    with pytest.raises(DataError):
        await workshop.gadget.create({"code": "g", field: value})
    assert await workshop.gadget.count() == 0


async def test_text_that_is_too_long_is_refused_not_cut(workshop):
    with pytest.raises(DataError, match="too long"):
        await workshop.gadget.create({"code": "x" * 21})


@pytest.mark.parametrize(
    ("field", "operator"),
    [
        ("flag", "gt"),
        ("flag", "in"),
        ("doc", "in"),
        ("color", "contains"),
        ("color", "lt"),
        ("color", "mode"),
        ("small", "contains"),
        ("small", "mode"),
        ("blob", "startswith"),
        ("odd", "regex"),
        ("tags", "contains"),
        ("tags", "not"),
    ],
)
async def test_a_filter_that_is_not_known_is_refused_by_name(workshop, field, operator):
    with pytest.raises(FieldNotFoundError, match=f"`{operator}` on Gadget.{field}") as refusal:
        await workshop.gadget.find_many(where={field: {operator: "x"}})
    assert refusal.value.code == "P2009"


async def test_a_filter_that_prisma_alone_knows_is_refused_by_name(workshop):
    with pytest.raises(UnsupportedQuery, match="`search` on Gadget.odd") as refusal:
        await workshop.gadget.find_many(where={"odd": {"search": "x"}})
    assert isinstance(refusal.value, DataError)
    assert refusal.value.remedy


FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("field", "first", "last"),
    [
        ("atz", FIRST, LAST),
        ("at", FIRST, LAST.replace(microsecond=999000)),
        ("day", FIRST, LAST.replace(hour=0, minute=0, second=0, microsecond=0)),
    ],
)
async def test_the_first_and_last_datetimes_are_datetimes_and_not_infinity(workshop, clean_pool, field, first, last):
    person = await workshop.person.create({"name": "Ada"})
    for code, given in {"first": datetime.min, "last": datetime.max, "zoned": LAST}.items():
        await workshop.gadget.create({"code": code, field: given, "ownerId": person.id})
    rows = await workshop.gadget.find_many(order={"id": "asc"})
    assert [getattr(row, field) for row in rows] == [first, last, last]
    [owner] = await workshop.person.find_many(include={"gadgets": True})
    assert [getattr(row, field) for row in owner.gadgets] == [first, last, last]
    assert await workshop.gadget.count(where={field: {"lte": datetime.min}}) == 1
    assert await workshop.gadget.count(where={field: {"in": [datetime.max]}}) == 2
    held = f'select count(*) from atlas."odd ""gadgets""" where isfinite({field})'
    assert await clean_pool.fetchval(held) == 3


@pytest.mark.parametrize("field", ["at", "atz", "day"])
async def test_a_datetime_that_no_year_in_utc_has_is_refused(workshop, field):
    beyond = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))
    with pytest.raises(FieldNotFoundError, match="1 to 9999"):
        await workshop.gadget.create({"code": "g", field: beyond})


async def test_a_json_column_keeps_the_document_as_it_was_given(workshop, clean_pool):
    document = {"z": 1, "a": {"y": "\0", "b": 2}}
    made = await workshop.gadget.create({"code": "g", "textDoc": Json(document)})
    await workshop.gadget.update(where={"code": "g"}, data={"textDoc": Json(document)})
    await workshop.gadget.update_many(where={"textDoc": {"not": None}}, data={"small": 1})
    assert (list(made.textDoc), list(made.textDoc["a"])) == (["z", "a"], ["y", "b"])
    held = await clean_pool.fetchval('select text_doc::text from atlas."odd ""gadgets"""')
    assert held == r'{"z":1,"a":{"y":"\u0000","b":2}}'


async def test_null_is_refused_where_a_field_is_required(workshop):
    for wanted in (None, {"equals": None}, {"not": None}):
        with pytest.raises(MissingRequiredValueError, match=r"Gadget\.code"):
            await workshop.gadget.find_many(where={"code": wanted})
    with pytest.raises(MissingRequiredValueError, match=r"Gadget\.small"):
        await workshop.gadget.find_many(where={"small": {"gt": None}})


async def test_a_field_that_prisma_cannot_say_is_not_there(workshop):
    for call in (
        lambda: workshop.gadget.find_many(where={"secret": "x"}),
        lambda: workshop.gadget.create({"code": "g", "secret": "x"}),
        lambda: workshop.gadget.find_many(order={"secret": "asc"}),
    ):
        with pytest.raises(DataError, match="secret"):
            await call()
