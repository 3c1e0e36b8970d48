"""count with a selection, and group_by."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
import pytest_asyncio

from atlas.generated import Base64, Json
from atlas.generated.errors import FieldNotFoundError, InputError, MissingRequiredValueError

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 12, 31, tzinfo=UTC)
LOW, HIGH = "0190f3c4-7d2e-7c11-8a55-0123456789ab", "f190f3c4-7d2e-7c11-8a55-0123456789ab"
ROWS = [
    {
        "code": "a",
        "odd": "x",
        "small": 1,
        "big": 2**62,
        "ratio": 0.5,
        "price": Decimal("1.10"),
        "flag": True,
        "atz": LAST,
    },
    {
        "code": "b",
        "odd": "x",
        "small": 2,
        "big": 2**62,
        "ratio": 1.0,
        "price": Decimal("2.20"),
        "flag": False,
        "ref": HIGH,
    },
    {"code": "c", "odd": "y", "small": 5, "color": "green", "doc": Json({"a": 1}), "atz": FIRST, "ref": LOW},
    {"code": "d", "odd": None, "color": "blue", "blob": Base64.encode(b"\x00"), "tags": ["t"]},
]


@pytest_asyncio.fixture(loop_scope="module")
async def gadgets(workshop):
    await workshop.gadget.create_many(ROWS)
    return workshop.gadget


@pytest.mark.long
async def test_count_counts_rows_and_the_fields_that_are_set(gadgets):
    assert await gadgets.count() == 4
    assert await gadgets.count(select={}) == {"_all": 4}
    assert await gadgets.count(select={"_all": True, "odd": True, "small": False}) == {"_all": 4, "odd": 3}
    selected = {"_all": True, "odd": True, "doc": True, "blob": True, "tags": True}
    assert await gadgets.count(select=selected, where={"odd": None}) == {
        "_all": 1,
        "odd": 0,
        "doc": 0,
        "blob": 1,
        "tags": 1,
    }
    assert await gadgets.count(take=3, skip=2) == 2
    assert await gadgets.count(select={"odd": True}, take=-2) == {"odd": 1}
    with pytest.raises(MissingRequiredValueError):
        await gadgets.count(select={"odd": False})
    with pytest.raises(FieldNotFoundError):
        await gadgets.count(select={"owner": True})


async def test_groups_are_counted_summed_and_compared(gadgets):
    groups = await gadgets.group_by(
        ["odd"],
        count={"_all": True, "color": True},
        sum={"small": True, "big": True, "ratio": True, "price": True},
        avg={"small": True, "ratio": True, "price": True},
        min={"small": True, "flag": True, "atz": True, "ref": True, "color": True, "code": True},
        max={"small": True, "flag": True, "atz": True, "ref": True, "price": True},
        order={"odd": "asc"},
    )
    nothing = dict.fromkeys
    assert groups == [
        {
            "odd": "x",
            "_count": {"_all": 2, "color": 0},
            "_sum": {"small": 3, "big": 2**63, "ratio": 1.5, "price": Decimal("3.30")},
            "_avg": {"small": 1.5, "ratio": 0.75, "price": Decimal("1.65")},
            "_min": {"small": 1, "flag": False, "atz": LAST, "ref": HIGH, "color": None, "code": "a"},
            "_max": {"small": 2, "flag": True, "atz": LAST, "ref": HIGH, "price": Decimal("2.20")},
        },
        {
            "odd": "y",
            "_count": {"_all": 1, "color": 1},
            "_sum": {"small": 5, **nothing(("big", "ratio", "price"))},
            "_avg": {"small": 5.0, **nothing(("ratio", "price"))},
            "_min": {"small": 5, "flag": None, "atz": FIRST, "ref": LOW, "color": "green", "code": "c"},
            "_max": {"small": 5, "flag": None, "atz": FIRST, "ref": LOW, "price": None},
        },
        {
            "odd": None,
            "_count": {"_all": 1, "color": 1},
            "_sum": nothing(("small", "big", "ratio", "price")),
            "_avg": nothing(("small", "ratio", "price")),
            "_min": {**nothing(("small", "flag", "atz", "ref")), "color": "blue", "code": "d"},
            "_max": nothing(("small", "flag", "atz", "ref", "price")),
        },
    ]
    assert isinstance(groups[0]["_sum"]["big"], int)


@pytest.mark.parametrize(
    ("by", "values"),
    [
        (["flag"], [{"flag": None}, {"flag": False}, {"flag": True}]),
        (["color"], [{"color": None}, {"color": "blue"}, {"color": "green"}]),
        (["ref"], [{"ref": None}, {"ref": LOW}, {"ref": HIGH}]),
        (["atz"], [{"atz": None}, {"atz": FIRST}, {"atz": LAST}]),
        (["doc"], [{"doc": None}, {"doc": {"a": 1}}]),
        (["textDoc"], [{"textDoc": None}]),
        (["blob"], [{"blob": None}, {"blob": Base64.encode(b"\x00")}]),
        (["tags"], [{"tags": ["new"]}, {"tags": ["t"]}]),
        (["price"], [{"price": None}, {"price": Decimal("1.1")}, {"price": Decimal("2.2")}]),
        (
            ["odd", "flag", "odd"],
            [
                {"odd": None, "flag": None},
                {"odd": "x", "flag": False},
                {"odd": "x", "flag": True},
                {"odd": "y", "flag": None},
            ],
        ),
    ],
)
async def test_any_column_can_be_grouped_by(gadgets, by, values):
    groups = await gadgets.group_by(by)
    assert sorted(groups, key=str) == sorted(values, key=str)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"having": {"small": {"_sum": {"gt": 3}}}}, ["y"]),
        ({"having": {"small": {"_sum": 3}}}, ["x"]),
        ({"having": {"small": {"_avg": {"gte": 1.5, "lt": 2}}}}, ["x"]),
        ({"having": {"big": {"_sum": {"equals": 2**63}}}}, ["x"]),
        ({"having": {"ratio": {"_sum": {"equals": 1.5}}}}, ["x"]),
        ({"having": {"price": {"_max": {"lt": Decimal("2.3")}}}}, ["x"]),
        ({"having": {"small": {"_count": {"gt": 1}}}}, ["x"]),
        ({"having": {"small": {"_min": {"not": 1}}}}, ["y"]),
        ({"having": {"small": {"_sum": None}}}, [None]),
        ({"having": {"small": {"_sum": {"not": None}}}}, ["x", "y"]),
        ({"having": {"ref": {"_max": {"equals": HIGH}}}}, ["x"]),
        ({"having": {"color": {"_min": "blue"}}}, [None]),
        ({"having": {"odd": "x"}}, ["x"]),
        ({"having": {"odd": {"in": ["x", "y"], "_count": {"lt": 2}}}}, ["y"]),
        ({"having": {"OR": [{"odd": None}, {"small": {"_sum": {"gt": 4}}}]}}, ["y", None]),
        ({"having": {"NOT": [{"odd": "x"}]}}, ["y"]),
        ({"having": {}}, ["x", "y", None]),
        ({"where": {"small": {"gt": 1}}}, ["x", "y"]),
        ({"where": {"owner": None}, "having": {"odd": {"not": None}}}, ["x", "y"]),
        ({"take": 1}, ["x"]),
        ({"take": 1, "skip": 1}, ["y"]),
        ({"take": -1}, [None]),
        ({"order": {"odd": "desc"}}, [None, "y", "x"]),
        ({"order": [{"_count": {"odd": "desc"}}, {"odd": "asc"}]}, ["x", "y", None]),
        ({"order": {"_sum": {"small": "desc"}}, "take": 2}, [None, "y"]),
        ({"order": {"_sum": {"small": {"sort": "desc", "nulls": "last"}}}}, ["y", "x", None]),
    ],
)
async def test_groups_are_filtered_ordered_and_paged(gadgets, arguments, found):
    groups = await gadgets.group_by(["odd"], **{"order": {"odd": "asc"}, **arguments})
    assert [group["odd"] for group in groups] == found


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"by": []}, MissingRequiredValueError, r"Gadget\.by"),
        ({"by": "odd"}, FieldNotFoundError, r"Gadget\.by"),
        ({"by": ["owner"]}, FieldNotFoundError, "owner"),
        ({"sum": {"odd": True}}, FieldNotFoundError, r"Gadget\.odd\._sum"),
        ({"avg": {"numbers": True}}, FieldNotFoundError, r"Gadget\.numbers\._avg"),
        ({"min": {"doc": True}}, FieldNotFoundError, r"Gadget\.doc\._min"),
        ({"max": {"tags": True}}, FieldNotFoundError, r"Gadget\.tags\._max"),
        ({"sum": {"nope": True}}, FieldNotFoundError, "nope"),
        ({"sum": {"small\nnope": True}}, FieldNotFoundError, "nope"),
        ({"sum": {"small": False}}, MissingRequiredValueError, "_sum"),
        ({"having": {"small": 1}}, InputError, "grouped by"),
        ({"having": {"odd": {"_avg": {"gt": 1}}}}, FieldNotFoundError, r"Gadget\.odd\._avg"),
        ({"having": {"small": {"_sum": {"contains": 1}}}}, FieldNotFoundError, "`contains` on Gadget.small._sum"),
        ({"having": {"small": {"_median": {"gt": 1}}}}, InputError, "grouped by"),
        ({"having": {"owner": {"is": {}}}}, FieldNotFoundError, "owner"),
        ({"order": {"small": "asc"}}, InputError, "grouped by"),
        ({"order": {"odd": "sideways"}}, FieldNotFoundError, "'asc' or 'desc'"),
    ],
)
async def test_groups_that_cannot_be_are_refused(gadgets, arguments, error, words):
    with pytest.raises(error, match=words):
        await gadgets.group_by(**{"by": ["odd"], **arguments})
