"""Includes, filters over relations, and writes that reach over them."""

import pytest
import pytest_asyncio

from atlas.generated.errors import (
    DataError,
    FieldNotFoundError,
    ForeignKeyViolationError,
    MissingRequiredValueError,
    RecordNotFoundError,
    UniqueViolationError,
    UnknownRelationalFieldError,
)
from atlas.prisma_client import UnsupportedQuery
from tests.support import some

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def people(workshop):
    """Ada leads Bob and Cyd, Bob leads Dan; Ada has gadgets 1 to 4 and a badge, Bob gadget 5, no one gadget 6."""
    ada = await workshop.person.create({"name": "Ada"})
    bob = await workshop.person.create({"name": "Bob", "bossId": ada.id})
    await workshop.person.create({"name": "Cyd", "bossId": ada.id, "email": "cyd@example.org"})
    await workshop.person.create({"name": "Dan", "bossId": bob.id})
    for number in range(1, 7):
        owner = {1: ada.id, 2: ada.id, 3: ada.id, 4: ada.id, 5: bob.id}.get(number)
        await workshop.gadget.create({"code": f"g{number}", "small": number % 3, "ownerId": owner})
    await workshop.badge.create({"personId": ada.id})
    return workshop.person


def codes(gadgets):
    return [gadget.code for gadget in gadgets]


async def test_a_relation_is_only_there_when_included(people):
    ada = await people.find_first(where={"name": "Ada"})
    assert (ada.team, ada.boss, ada.badge, ada.gadgets) == (None, None, None, None)
    ada = await people.find_first(
        where={"name": "Ada"}, include={"team": True, "boss": True, "badge": True, "gadgets": False}
    )
    assert [person.name for person in ada.team] == ["Bob", "Cyd"]
    assert ada.boss is None
    assert ada.badge.personId == ada.id
    assert ada.gadgets is None


async def test_an_include_reaches_as_deep_as_it_is_asked(people):
    include = {"boss": {"include": {"boss": {"include": {"gadgets": True, "badge": {"include": {"person": True}}}}}}}
    dan = await people.find_first(where={"name": "Dan"}, include=include)
    assert dan.boss.name == "Bob"
    assert dan.boss.boss.name == "Ada"
    assert codes(dan.boss.boss.gadgets) == ["g1", "g2", "g3", "g4"]
    assert dan.boss.boss.badge.person.name == "Ada"
    everyone = await people.find_many(order={"name": "asc"}, include={"team": {"include": {"team": True}}})
    assert [[p.name for p in person.team] for person in everyone] == [["Bob", "Cyd"], ["Dan"], [], []]
    assert [p.name for p in everyone[0].team[0].team] == ["Dan"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"take": 2}, ["g1", "g2"]),
        ({"take": -2}, ["g3", "g4"]),
        ({"skip": 3}, ["g4"]),
        ({"order_by": {"code": "desc"}}, ["g4", "g3", "g2", "g1"]),
        ({"orderBy": [{"small": "desc"}, {"code": "asc"}], "take": 3}, ["g2", "g1", "g4"]),
        ({"order_by": {"code": "desc"}, "take": -2}, ["g2", "g1"]),
        ({"where": {"small": {"gt": 0}}}, ["g1", "g2", "g4"]),
        ({"where": {"owner": {"is": {"name": "Bob"}}}}, []),
        ({"cursor": {"code": "g2"}, "skip": 1}, ["g3", "g4"]),
        ({"cursor": {"code": "g5"}}, []),
        ({"distinct": ["small"]}, ["g1", "g2", "g3"]),
        ({"distinct": ["small"], "where": {"code": {"not": "g1"}}, "take": 2}, ["g2", "g3"]),
    ],
)
async def test_an_included_list_is_a_page_of_its_own(people, arguments, found):
    rows = await people.find_many(order={"id": "asc"}, include={"gadgets": arguments})
    assert codes(rows[0].gadgets) == found
    nested = await people.find_first(
        where={"name": "Dan"}, include={"boss": {"include": {"boss": {"include": {"gadgets": arguments}}}}}
    )
    assert codes(nested.boss.boss.gadgets) == found


FILTERS = [
    ({"boss": {"is": {"name": "Ada"}}}, {"Bob", "Cyd"}),
    ({"boss": {"name": "Ada"}}, {"Bob", "Cyd"}),
    ({"boss": {"is_not": {"name": "Ada"}}}, {"Ada", "Dan"}),
    ({"boss": {"isNot": {"name": "Ada"}}}, {"Ada", "Dan"}),
    ({"boss": None}, {"Ada"}),
    ({"boss": {"is": None}}, {"Ada"}),
    ({"boss": {"is_not": None}}, {"Bob", "Cyd", "Dan"}),
    ({"boss": {"is": {}}}, {"Bob", "Cyd", "Dan"}),
    ({"boss": {}}, {"Ada", "Bob", "Cyd", "Dan"}),
    ({"boss": {"is": {"boss": {"is": {"name": "Ada"}}}}}, {"Dan"}),
    ({"badge": {"is_not": None}}, {"Ada"}),
    ({"badge": None}, {"Bob", "Cyd", "Dan"}),
    ({"team": {"some": {"name": "Bob"}}}, {"Ada"}),
    ({"team": {"some": {}}}, {"Ada", "Bob"}),
    ({"team": {"none": {}}}, {"Cyd", "Dan"}),
    ({"team": {"none": {"email": None}}}, {"Cyd", "Dan"}),
    ({"team": {"every": {"name": {"in": ["Dan", "Bob"]}}}}, {"Bob", "Cyd", "Dan"}),
    ({"team": {"every": {"email": "cyd@example.org"}}}, {"Ada", "Bob", "Cyd", "Dan"}),  # null is no counter-example
    ({"gadgets": {"some": {"small": 1}, "every": {"small": {"lt": 3}}}}, {"Ada"}),
    ({"gadgets": {"some": {"owner": {"is": {"team": {"some": {"name": "Dan"}}}}}}}, {"Bob"}),
    ({"NOT": {"gadgets": {"some": {}}}}, {"Cyd", "Dan"}),
    ({"OR": [{"team": {"some": {"name": "Dan"}}}, {"name": "Cyd"}]}, {"Bob", "Cyd"}),
]


@pytest.mark.parametrize(
    ("where", "names"), some(FILTERS, every=3), ids=[str(case[0]) for case in some(FILTERS, every=3)]
)
async def test_a_filter_over_a_relation_finds_exactly_its_rows(people, where, names):
    assert {person.name for person in await people.find_many(where=where)} == names
    assert await people.count(where=where) == len(names)


async def test_a_relation_over_two_columns_joins_on_both(workshop):
    for left, right in [(1, 1), (1, 2), (2, 1)]:
        await workshop.pair.create({"left": left, "right": right})
    await workshop.mark.create({"id": 1, "pair": {"connect": {"left_right": {"left": 1, "right": 2}}}})
    mark = await workshop.mark.find_first(include={"pair": {"include": {"marks": True}}})
    assert (mark.left, mark.right, mark.pair.right, mark.pair.marks[0].id) == (1, 2, 2, 1)
    assert await workshop.pair.count(where={"marks": {"none": {}}}) == 2
    assert await workshop.mark.find_unique(where={"left_right": {"left": 1, "right": 2}}) is not None


async def test_the_answer_of_a_write_shows_its_relations_as_they_are_afterwards(people, workshop):
    bob = await people.find_first(where={"name": "Bob"})
    include = {"boss": {"include": {"team": True}}}
    eve = await people.create({"name": "Eve", "bossId": bob.id}, include=include)
    assert [person.name for person in eve.boss.team] == ["Dan", "Eve"]
    eve = await people.update(where={"id": eve.id}, data={"name": "Eva"}, include=include)
    assert [person.name for person in eve.boss.team] == ["Dan", "Eva"]
    data = {"create": {"name": "x"}, "update": {"name": "Evi"}}
    eve = await people.upsert(where={"id": eve.id}, data=data, include=include)
    assert [person.name for person in eve.boss.team] == ["Dan", "Evi"]
    gone = await people.delete(where={"id": eve.id}, include=include)
    assert [person.name for person in gone.boss.team] == ["Dan", "Evi"]
    assert await people.count(where={"boss": {"is": {"name": "Bob"}}}) == 1


async def test_a_deleted_row_comes_back_with_what_went_with_it(db, tenant):
    job = await db.job.create({"tenantId": tenant.id, "jobType": "x"})
    attempt = {"jobId": job.id, "workerId": "w", "status": "failed", "startedAt": job.createdAt}
    await db.jobattempt.create_many([{**attempt, "attemptNo": number} for number in (2, 1)])
    gone = await db.job.delete(where={"id": job.id}, include={"attempts": True})
    assert [one.attemptNo for one in gone.attempts] == [1, 2]
    assert await db.jobattempt.count() == 0


async def test_connect_finds_its_row_by_any_key(people, workshop):
    for code, where in {"by id": {"id": 3}, "by email": {"email": "cyd@example.org"}}.items():
        made = await workshop.gadget.create({"code": code, "owner": {"connect": where}}, include={"owner": True})
        assert made.owner.name == "Cyd"
    moved = await workshop.gadget.update(where={"code": "g1"}, data={"owner": {"connect": {"id": 3}}})
    assert moved.ownerId == 3


async def test_disconnect_lets_go(people, workshop):
    freed = await workshop.gadget.update(where={"code": "g1"}, data={"owner": {"disconnect": True}})
    assert freed.ownerId is None
    same = await workshop.gadget.update(where={"code": "g2"}, data={"owner": {"disconnect": False}})
    assert same.ownerId is not None
    ada = await people.update(
        where={"id": 1},
        data={"gadgets": {"disconnect": [{"code": "g2"}, {"code": "g5"}]}, "badge": {"disconnect": True}},
        include={"gadgets": True, "badge": True},
    )
    assert codes(ada.gadgets) == ["g3", "g4"]
    assert ada.badge is None
    assert (await workshop.gadget.find_unique(where={"code": "g5"})).ownerId == 2


async def test_rows_are_created_on_both_sides_of_a_relation(workshop):
    gadget = await workshop.gadget.create(
        {
            "code": "new",
            "owner": {
                "create": {
                    "name": "Flo",
                    "boss": {"create": {"name": "Gus"}},
                    "team": {"create": [{"name": "Hal"}, {"name": "Ida", "gadgets": {"create": {"code": "own"}}}]},
                    "badge": {"create": {}},
                }
            },
        },
        include={"owner": {"include": {"boss": True, "badge": True, "team": {"include": {"gadgets": True}}}}},
    )
    assert gadget.owner.boss.name == "Gus"
    assert gadget.owner.badge.number[14] == "7"
    assert [person.name for person in gadget.owner.team] == ["Hal", "Ida"]
    assert codes(gadget.owner.team[1].gadgets) == ["own"]


async def test_an_update_creates_and_connects_too(people, workshop):
    bob = await people.update(
        where={"id": 2},
        data={
            "name": "Robert",
            "gadgets": {
                "create": [{"code": "n1"}],
                "connect": [{"code": "g6"}],
                "connect_or_create": [
                    {"where": {"code": "g1"}, "create": {"code": "g1"}},
                    {"where": {"code": "n2"}, "create": {"code": "n2"}},
                ],
            },
            "boss": {"connect_or_create": {"where": {"email": "new@x"}, "create": {"name": "Zoe", "email": "new@x"}}},
        },
        include={"gadgets": {"order_by": {"code": "asc"}}, "boss": True},
    )
    assert (bob.name, bob.boss.name) == ("Robert", "Zoe")
    assert codes(bob.gadgets) == ["g1", "g5", "g6", "n1", "n2"]


REFUSED = [
    ({"owner": {"connect": {"id": 99}}}, RecordNotFoundError, "Person"),
    ({"owner": {"connect": {"name": "Ada"}}}, FieldNotFoundError, "`id`"),
    ({"owner": {"connect": {"id": 1}}, "ownerId": 2}, FieldNotFoundError, r"Gadget\.ownerId"),
    ({"owner": {"create": {}}}, MissingRequiredValueError, r"Person\.name"),
    ({"owner": {"create": {"nope": 1}}}, FieldNotFoundError, "nope"),
    ({"owner": {"connect_or_create": {"where": {"id": 1}}}}, FieldNotFoundError, "`where` and `create`"),
    ({"owner": {"update": {"name": "x"}}}, FieldNotFoundError, "`update` on Gadget.owner"),
    ({"owner": {"upsert": {}}}, UnsupportedQuery, "`upsert` on Gadget.owner"),
    ({"owner": {"disconnect": True}}, FieldNotFoundError, "`disconnect` on Gadget.owner"),
    ({"owner": 5}, FieldNotFoundError, r"Gadget\.owner"),
    ({"owner": {"create": {"name": "x", "clubs": {"create": {"id": 1}}}}}, UnsupportedQuery, "many-to-many"),
    (
        {"owner": {"create": {"name": "x", "gadgets": {"create": {"code": "y", "ownerId": 1}}}}},
        FieldNotFoundError,
        "ownerId",
    ),
    ({"owner": {"create": {"name": "x", "gadgets": {"create": {"code": "g1"}}}}}, UniqueViolationError, "code"),
]


@pytest.mark.parametrize(("data", "error", "words"), REFUSED, ids=[str(data) for data, _, _ in REFUSED])
async def test_a_nested_write_that_fails_leaves_nothing_behind(people, workshop, data, error, words):
    before = (await people.count(), await workshop.gadget.count())
    with pytest.raises(error, match=words):
        await workshop.gadget.create({"code": "new", **data})
    assert (await people.count(), await workshop.gadget.count()) == before


@pytest.mark.parametrize("operation", ["create_many", "createMany", "upsert"])
async def test_other_nested_writes_are_refused_by_name(people, operation):
    with pytest.raises(UnsupportedQuery, match="`(create_many|upsert)` on Person.gadgets") as refusal:
        await people.update(where={"id": 1}, data={"name": "changed", "gadgets": {operation: [{"code": "g1"}]}})
    assert isinstance(refusal.value, DataError)
    assert (await people.find_unique(where={"id": 1})).name == "Ada"


async def test_a_nested_failure_is_undone_inside_the_callers_transaction(people, workshop):
    async with workshop.client.tx() as tx:
        inside = type(workshop)(tx)
        with pytest.raises(DataError) as missing:
            data = {"name": "changed", "gadgets": {"connect": [{"code": "missing"}]}}
            await inside.person.update(where={"id": 1}, data=data)
        assert missing.value.code == "P2018"
        # A missing record makes Prisma's update answer None; what came before it must be undone all the same.
        data = {"name": "changed", "gadgets": {"update": [{"where": {"code": "g5"}, "data": {"small": 9}}]}}
        assert await inside.person.update(where={"id": 1}, data=data) is None
        await inside.person.update(where={"id": 2}, data={"name": "kept"})
    assert [person.name for person in await people.find_many(order={"id": "asc"}, take=2)] == ["Ada", "kept"]


@pytest.mark.parametrize(
    ("include", "error", "words"),
    [
        ({"nope": True}, UnknownRelationalFieldError, "nope"),
        ({"name": True}, UnknownRelationalFieldError, "name"),
        ({"team": {"include": {"nope": True}}}, UnknownRelationalFieldError, "nope"),
        ({"team": {"order": {"name": "asc"}}}, FieldNotFoundError, "`order` on Person"),
        ({"team": {"select": {"name": True}}}, FieldNotFoundError, "`select` on Person"),
        ({"boss": {"where": {"name": "x"}}}, FieldNotFoundError, "`where` on Person"),
        ({"team": "yes"}, FieldNotFoundError, r"Person\.include\.team"),
        ({"clubs": True}, UnsupportedQuery, "many-to-many relation Person.clubs"),
        (["team"], FieldNotFoundError, r"Person\.include"),
        ([], FieldNotFoundError, r"Person\.include"),
        ({"team": {"include": []}}, FieldNotFoundError, r"Person\.include"),
    ],
)
async def test_an_include_that_cannot_be_is_refused(people, include, error, words):
    with pytest.raises(error, match=words):
        await people.find_many(include=include)


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ({"team": {"is": {}}}, FieldNotFoundError, "`is` on Person.team"),
        ({"boss": {"some": {}}}, FieldNotFoundError, "some"),
        ({"boss": {"is": {"nope": 1}}}, FieldNotFoundError, "nope"),
        ({"team": None}, FieldNotFoundError, r"Person\.team"),
        ({"team": {"some": None}}, FieldNotFoundError, r"Person\.team\.some"),
        ({"clubs": {"some": {}}}, UnsupportedQuery, "many-to-many"),
    ],
)
async def test_a_filter_over_a_relation_that_cannot_be_is_refused(people, where, error, words):
    with pytest.raises(error, match=words):
        await people.find_many(where=where)


async def test_a_partial_type_reads_only_its_fields(people, workshop):
    assert [vars(row) for row in await workshop.person_name.find_many(order={"name": "asc"}, take=1)] == [
        {"name": "Ada"}
    ]
    with pytest.raises(UnknownRelationalFieldError):
        await workshop.person_name.find_first(include={"team": True})


async def test_a_row_that_others_point_to_stays(people):
    with pytest.raises(ForeignKeyViolationError) as refusal:
        await people.delete(where={"id": 1})
    assert refusal.value.code == "P2003"
    with pytest.raises(DataError):
        await people.delete_many(where={"name": "Ada"})
    assert await people.count() == 4
