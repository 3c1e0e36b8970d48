"""Order, paging, cursors and distinct rows."""

import pytest
import pytest_asyncio

from atlas.generated.errors import DataError, FieldNotFoundError
from atlas.prisma_client import UnsupportedQuery
from tests.support import some

pytestmark = pytest.mark.asyncio(loop_scope="module")

# code: (small, odd); ids follow this order
ROWS = {"a": (2, "x"), "b": (1, None), "c": (None, "y"), "d": (2, "x"), "e": (None, None), "f": (3, "y")}


@pytest_asyncio.fixture(loop_scope="module")
async def gadgets(workshop):
    for code, (small, odd) in ROWS.items():
        await workshop.gadget.create({"code": code, "small": small, "odd": odd})
    return workshop.gadget


CASES = [
    ({"order": {"code": "desc"}}, "fedcba"),
    ({"order": [{"small": "asc"}, {"code": "asc"}]}, "badfce"),
    ({"order": [{"small": "desc"}, {"code": "desc"}]}, "ecfdab"),
    ({"order": {"small": "asc", "code": "desc"}}, "bdafec"),
    ({"order": [{"small": {"sort": "asc", "nulls": "first"}}, {"code": "asc"}]}, "cebadf"),
    ({"order": [{"small": {"sort": "desc", "nulls": "last"}}, {"code": "asc"}]}, "fadbce"),
    ({"order": [{"small": {"sort": "desc"}}, {"code": "asc"}]}, "cefadb"),
    ({"take": 2}, "ab"),
    ({"take": 0}, ""),
    ({"take": 99}, "abcdef"),
    ({"take": -2}, "ef"),
    ({"skip": 4}, "ef"),
    ({"skip": 99}, ""),
    ({"skip": 0}, "abcdef"),
    ({"take": 2, "skip": 1}, "bc"),
    ({"take": -2, "skip": 1}, "de"),
    ({"take": -2, "order": {"code": "desc"}}, "ba"),
    ({"take": -3, "order": [{"small": "asc"}]}, "fce"),
    ({"take": 3, "order": {"small": "desc"}}, "cef"),
    ({"cursor": {"code": "c"}}, "cdef"),
    ({"cursor": {"id": 3}, "skip": 1}, "def"),
    ({"cursor": {"code": "c"}, "take": 2}, "cd"),
    ({"cursor": {"code": "c"}, "take": -2}, "bc"),
    ({"cursor": {"code": "c"}, "take": -2, "skip": 1}, "ab"),
    ({"cursor": {"code": "d"}, "order": {"code": "desc"}}, "dcba"),
    ({"cursor": {"code": "a"}, "order": {"small": "asc"}}, "adfce"),
    ({"cursor": {"code": "c"}, "order": {"small": "asc"}}, "ce"),
    ({"cursor": {"code": "e"}, "order": {"small": "desc"}}, "efadb"),
    ({"cursor": {"code": "f"}, "order": {"small": "desc"}}, "fadb"),
    ({"cursor": {"code": "e"}, "order": [{"small": {"sort": "asc", "nulls": "first"}}]}, "ebadf"),
    ({"cursor": {"code": "a"}, "order": [{"small": {"sort": "desc", "nulls": "last"}}]}, "adbce"),
    ({"cursor": {"code": "e"}, "order": {"small": "asc"}, "take": -3}, "fce"),
    ({"cursor": {"code": "nobody"}}, ""),
    ({"cursor": {"code": "c"}, "where": {"code": {"not": "c"}}}, "def"),
    ({"where": {"small": {"not": None}}, "take": 3}, "abd"),
    ({"distinct": ["small"]}, "abcf"),
    ({"distinct": ["small", "odd"]}, "abcef"),
    ({"distinct": ["odd"], "order": {"code": "desc"}}, "fed"),
    ({"distinct": ["small"], "take": 2, "skip": 1}, "bc"),
    ({"distinct": ["small"], "take": -2}, "ef"),
    ({"distinct": ["odd"], "where": {"small": 2}}, "a"),
    ({"distinct": ["small"], "cursor": {"code": "b"}}, "bcdf"),
]


@pytest.mark.parametrize(
    ("arguments", "codes"), some(CASES, every=3), ids=[str(case[0]) for case in some(CASES, every=3)]
)
async def test_a_page_has_these_rows_in_this_order(gadgets, arguments, codes):
    assert "".join(row.code for row in await gadgets.find_many(**arguments)) == codes
    if "take" not in arguments:
        first = await gadgets.find_first(**arguments)
        assert (first.code if first else "") == codes[:1]
    if not {"distinct", "order"} & arguments.keys():
        assert await gadgets.count(**arguments) == len(codes)


async def test_pages_joined_together_are_the_whole_in_every_order(gadgets):
    for order in (
        [],
        [{"odd": "asc"}],
        [{"odd": "desc"}, {"small": "asc"}],
        [{"small": {"sort": "asc", "nulls": "first"}}],
    ):
        seen, cursor = [], None
        while page := await gadgets.find_many(order=order, take=2, cursor=cursor, skip=1 if cursor else 0):
            seen += [row.code for row in page]
            cursor = {"id": page[-1].id}
        assert seen == [row.code for row in await gadgets.find_many(order=[*order, {"id": "asc"}])]


async def test_a_compound_key_is_a_cursor_too(workshop):
    for left, right in [(1, 2), (2, 1), (1, 1), (2, 2)]:
        await workshop.pair.create({"left": left, "right": right})
    rows = await workshop.pair.find_many(cursor={"left_right": {"left": 1, "right": 2}}, take=2)
    assert [(row.left, row.right) for row in rows] == [(1, 2), (2, 1)]


async def test_any_column_can_give_the_order(gadgets):
    for field in ("flag", "price", "at", "doc", "textDoc", "blob", "ref", "color", "tags"):
        assert len(await gadgets.find_many(order={field: "desc"}, take=2, cursor={"code": "a"})) <= 2
        assert await gadgets.find_many(distinct=[field])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"order": {"owner": {"nope": "asc"}}}, FieldNotFoundError, "nope"),
        ({"order": {"owner": {}}}, FieldNotFoundError, "exactly one field"),
        ({"order": {"owner": "asc"}}, FieldNotFoundError, r"Gadget\.owner"),
        ({"order": {"owner": {"gadgets": {"code": "asc"}}}}, FieldNotFoundError, "`code` on Person.gadgets"),
        ({"order": {"_relevance": {"fields": ["odd"], "search": "x", "sort": "asc"}}}, UnsupportedQuery, "_relevance"),
        ({"order": {"nope": "asc"}}, FieldNotFoundError, "nope"),
        ({"order": {"small": "upwards"}}, FieldNotFoundError, "'asc' or 'desc'"),
        ({"order": {"small": {"sort": "asc", "nulls": "middle"}}}, FieldNotFoundError, "'first' or 'last'"),
        ({"order": {"small": {"sort": "asc", "collate": "C"}}}, FieldNotFoundError, "`collate` on Gadget.small"),
        ({"order": "small"}, FieldNotFoundError, "a dict"),
        ({"order": ["small"]}, FieldNotFoundError, "a dict"),
        ({"take": "2"}, FieldNotFoundError, r"Gadget\.take"),
        ({"take": True}, FieldNotFoundError, r"Gadget\.take"),
        ({"skip": -1}, FieldNotFoundError, r"Gadget\.skip"),
        ({"take": 2**70}, DataError, "range"),
        ({"cursor": {}}, FieldNotFoundError, "`id` or `code`"),
        ({"cursor": {"small": 2}}, FieldNotFoundError, "`id` or `code`"),
        ({"distinct": ["owner"]}, FieldNotFoundError, "owner"),
        ({"distinct": "small"}, FieldNotFoundError, "list of fields"),
    ],
)
async def test_a_page_that_cannot_be_is_refused(gadgets, arguments, error, words):
    with pytest.raises(error, match=words):
        await gadgets.find_many(**arguments)
