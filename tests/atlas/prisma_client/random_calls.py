"""Random calls for Prisma's own engine and for ours: filters, pages, groups, relations and nested writes."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from atlas.generated import Json
from tests.atlas.prisma_client.recording import Call

NUMBERS = st.integers(-2, 3)
TEXTS = st.sampled_from(["", "a", "b", "ab", "Ab", "'", "x"])
COLORS = st.sampled_from(["red", "green", "blue"])
TIMES = st.sampled_from([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)])
DOCUMENTS = st.sampled_from([{}, 1, [1], "text", None, "two", "hello", [3]]).map(Json)
TAGS = st.lists(st.sampled_from("xyz"), max_size=3)
PATHS = st.sampled_from([["a"], ["s"], ["list"], ["0"], ["a", "b"], ["a", "b", "0"], ["missing"]])


def some_of(choices: dict[str, st.SearchStrategy[Any]], *, least: int = 1, most: int = 2) -> st.SearchStrategy[Any]:
    """A dict of few entries: with many, nothing would be found and nothing tested."""
    entry = st.sampled_from(sorted(choices)).flatmap(lambda name: st.tuples(st.just(name), choices[name]))
    return st.lists(entry, min_size=least, max_size=most, unique_by=lambda pair: pair[0]).map(dict)


def ordered_filter(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    operators = dict.fromkeys(("equals", "lt", "lte", "gt", "gte"), values)
    sets = {name: st.lists(values, max_size=3) for name in ("in", "not_in")}
    simple = some_of({**operators, **sets, "not": st.none() | values}, least=0)
    nested = some_of({"not": simple, "gt": values})
    return st.one_of(st.none(), values, simple, simple, nested)


def text_filter() -> st.SearchStrategy[Any]:
    operators = dict.fromkeys(("contains", "startswith", "endswith", "equals", "not"), TEXTS)
    sets = {name: st.lists(TEXTS, max_size=2) for name in ("in", "not_in")}
    simple = some_of({**operators, **sets})
    mode = st.sampled_from([{}, {"mode": "default"}, {"mode": "insensitive"}])
    return st.builds(lambda wanted, mode: {**wanted, **mode}, simple | simple.map(lambda inner: {"not": inner}), mode)


def json_filter() -> st.SearchStrategy[Any]:
    texts = st.sampled_from(["ello", "H", "text", "d", ""])
    operators = dict.fromkeys(("equals", "not", "array_contains", "array_starts_with", "array_ends_with"), DOCUMENTS)
    operators |= dict.fromkeys(("string_contains", "string_starts_with", "string_ends_with"), texts)
    operators |= dict.fromkeys(("lt", "lte", "gt", "gte"), st.sampled_from([0, 1, 2, "h", "text"]).map(Json))
    path = st.just({}) | PATHS.map(lambda path: {"path": path})
    return st.builds(lambda wanted, path: {**wanted, **path}, some_of(operators, most=1), path)


FIELD_FILTERS = {
    "small": ordered_filter(NUMBERS),
    "odd": ordered_filter(TEXTS) | text_filter(),
    "flag": st.none() | st.booleans() | some_of({"not": st.none() | st.booleans()}),
    "color": st.none() | COLORS | some_of({"not": COLORS, "in": st.lists(COLORS), "not_in": st.lists(COLORS)}),
    "atz": ordered_filter(TIMES),
    "code": text_filter(),
    "tags": some_of({"has": st.sampled_from("xyz"), "has_every": TAGS, "has_some": TAGS, "is_empty": st.booleans()}),
    "doc": json_filter(),
}
LEAVES = some_of(FIELD_FILTERS, least=0)
PEOPLE = some_of({"name": st.sampled_from(["Ada", "Bob", "x"]), "email": st.none() | text_filter()}, least=0)


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """AND, OR and NOT over filters, empty ones among them."""
    return st.recursive(
        leaves,
        lambda inner: some_of(
            {
                "AND": inner | st.lists(inner, max_size=2),
                "OR": st.lists(inner, max_size=3),
                "NOT": inner | st.lists(inner, max_size=2),
                **FIELD_FILTERS,
            },
            least=0,
        ),
        max_leaves=6,
    )


OWNERS = st.none() | PEOPLE | some_of({"is": st.none() | PEOPLE, "is_not": st.none() | PEOPLE}, least=0, most=1)
WHERES = trees(LEAVES | OWNERS.map(lambda owner: {"owner": owner}))
RELATED = some_of(dict.fromkeys(("some", "every", "none"), trees(LEAVES)), least=0)
DIRECTIONS = st.sampled_from(["asc", "desc"])
NULLS = st.builds(lambda sort, nulls: {"sort": sort, "nulls": nulls}, DIRECTIONS, st.sampled_from(["first", "last"]))
SORTS = st.lists(
    st.tuples(st.sampled_from(["small", "flag", "color", "atz", "ratio"]), DIRECTIONS | NULLS),
    max_size=3,
    unique_by=lambda sort: sort[0],
).map(lambda sorts: [{name: wanted} for name, wanted in sorts] + [{"id": "asc"}])
OWNER_SORTS = st.builds(
    lambda owner, sorts: [{"owner": owner}, *sorts],
    some_of({"email": NULLS, "name": DIRECTIONS, "id": DIRECTIONS, "boss": some_of({"name": DIRECTIONS})}, most=1),
    SORTS,
)
PAGES = st.fixed_dictionaries(
    {},
    optional={
        "take": st.integers(-4, 4),
        "skip": st.integers(0, 3),
        "distinct": st.lists(st.sampled_from(["small", "flag", "color"]), min_size=1, max_size=2, unique=True),
    },
)
GADGETS = st.sampled_from(["g1", "g2", "g5", "g6", "missing"]).map(lambda code: {"code": code})
CHANGES = some_of(
    {"small": NUMBERS | NUMBERS.map(lambda number: {"increment": number}), "odd": TEXTS, "flag": st.none()}
)
SEVERAL = st.lists(GADGETS, max_size=2, unique_by=lambda where: where["code"])
WRITES = some_of(
    {
        "set": SEVERAL,
        "connect": SEVERAL,
        "disconnect": SEVERAL,
        "delete": SEVERAL,
        "create": st.sampled_from([[{"code": "n1"}], [{"code": "n1"}, {"code": "n2"}], [{"code": "g3"}]]),
        "connect_or_create": GADGETS.map(lambda where: [{"where": where, "create": where}]),
        "update": st.builds(lambda where, data: [{"where": where, "data": data}], GADGETS, CHANGES),
        "updateMany": st.builds(lambda where, data: [{"where": where, "data": data}], LEAVES, CHANGES),
        "deleteMany": LEAVES,
    },
    most=1,
)
ROOTS = st.sampled_from([1, 2, 4, 99]).map(lambda number: {"id": number})

CALLS: st.SearchStrategy[Call] = st.one_of(
    WHERES.map(lambda where: Call("gadget", "find_many", {"where": where, "order": {"id": "asc"}})),
    WHERES.map(lambda where: Call("gadget", "count", {"where": where})),
    WHERES.map(lambda where: Call("gadget", "delete_many", {"where": where})),
    st.builds(lambda where, data: Call("gadget", "update_many", {"where": where, "data": data}), WHERES, CHANGES),
    RELATED.map(lambda where: Call("person", "find_many", {"where": {"gadgets": where}, "order": {"id": "asc"}})),
    st.builds(
        lambda where, order, page: Call("gadget", "find_many", {"where": where, "order": order, **page}),
        LEAVES,
        SORTS | OWNER_SORTS,
        PAGES,
    ),
    st.builds(
        lambda order, page, cursor: Call("gadget", "find_many", {"order": order, **page, "cursor": {"id": cursor}}),
        SORTS,
        PAGES,
        st.integers(1, 7),
    ).filter(lambda call: "distinct" not in call.arguments or len(call.arguments["order"]) == 1),
    st.builds(
        lambda where, writes: Call("person", "update", {"where": where, "data": {"name": "N", "gadgets": writes}}),
        ROOTS,
        WRITES,
    ).filter(lambda call: call.arguments["where"]["id"] != 99 or "delete" not in call.arguments["data"]["gadgets"]),
)
