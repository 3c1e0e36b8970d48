"""Filters on jobs, as a table: what is asked, and which rows answer."""

import pytest
import pytest_asyncio

from atlas.generated import Base64, Json
from atlas.generated.errors import FieldNotFoundError
from tests.support import some

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = {
    "plain": {"jobType": "mail", "priority": 1},
    "Upper": {"jobType": "MAIL.Send", "priority": 5, "claimedBy": "host:1"},
    "percent": {"jobType": "100%_done\\", "priority": -3, "timeoutSeconds": 30},
    "quoted": {"jobType": 'it\'s "odd"; --', "priority": 5, "source": "event", "careful": True},
    "json": {"jobType": "mail", "input": {"to": ["a", "b"], "n": 1}, "progress": {"done": 40}, "priority": 9},
    "hashed": {"jobType": "sweep", "dedupeKey": "k", "dedupeHash": b"\x01\x02", "priority": 0},
}


@pytest_asyncio.fixture(loop_scope="module")
async def jobs(db, tenant):
    for name, row in ROWS.items():
        data = {"tenantId": tenant.id, "correlationId": name, **row}
        for key in ("input", "progress"):
            if key in data:
                data[key] = Json(data[key])
        if "dedupeHash" in data:
            data["dedupeHash"] = Base64.encode(data["dedupeHash"])
        await db.job.create(data)
    return db.job


ALL = set(ROWS)
CASES = [
    ({}, ALL),
    (None, ALL),
    ({"jobType": "mail"}, {"plain", "json"}),
    ({"jobType": {"equals": "mail"}}, {"plain", "json"}),
    ({"jobType": {}}, ALL),
    ({"jobType": {"not": "mail"}}, ALL - {"plain", "json"}),
    ({"jobType": {"not": {"in": ["mail", "sweep"]}}}, ALL - {"plain", "json", "hashed"}),
    ({"jobType": {"not": {"not": {"equals": "mail"}}}}, {"plain", "json"}),
    ({"jobType": {"not": {"contains": "a", "startswith": "m"}}}, ALL - {"plain", "json"}),
    ({"jobType": {"in": ["mail", "nothing"]}}, {"plain", "json"}),
    ({"jobType": {"in": ("mail",)}}, {"plain", "json"}),
    ({"jobType": {"in": []}}, set()),
    ({"jobType": {"not_in": []}}, ALL),
    ({"jobType": {"notIn": ["mail"]}}, ALL - {"plain", "json"}),
    ({"jobType": {"contains": "ai"}}, {"plain", "json"}),
    ({"jobType": {"contains": "AI", "mode": "insensitive"}}, {"plain", "json", "Upper"}),
    ({"jobType": {"contains": "AI", "mode": "default"}}, {"Upper"}),
    ({"jobType": {"equals": "mail.send", "mode": "insensitive"}}, {"Upper"}),
    ({"jobType": {"in": ["MAIL", "Sweep"], "mode": "insensitive"}}, {"plain", "json", "hashed"}),
    ({"jobType": {"not_in": ["MAIL", "Sweep"], "mode": "insensitive"}}, {"Upper", "percent", "quoted"}),
    ({"jobType": {"not": "MAIL", "mode": "insensitive"}}, ALL - {"plain", "json"}),
    ({"jobType": {"not": {"startswith": "MAIL"}, "mode": "insensitive"}}, ALL - {"plain", "json", "Upper"}),
    ({"jobType": {"startswith": "ma", "endswith": "il"}}, {"plain", "json"}),
    ({"jobType": {"startsWith": "MA"}}, {"Upper"}),
    ({"jobType": {"endswith": "\\"}}, {"percent"}),
    ({"jobType": {"contains": "%"}}, {"percent"}),
    ({"jobType": {"contains": "_"}}, {"percent"}),
    ({"jobType": {"startswith": "%"}}, set()),
    ({"jobType": {"contains": "' or '1'='1"}}, set()),
    ({"jobType": 'it\'s "odd"; --'}, {"quoted"}),
    ({"jobType": {"contains": ""}}, ALL),
    ({"priority": 5}, {"Upper", "quoted"}),
    ({"priority": {"gt": 1, "lt": 9}}, {"Upper", "quoted"}),
    ({"priority": {"gte": 5, "not": 9}}, {"Upper", "quoted"}),
    ({"priority": {"lte": 0}}, {"percent", "hashed"}),
    ({"priority": {"in": [1, 9, 77]}}, {"plain", "json"}),
    ({"claimedBy": None}, ALL - {"Upper"}),
    ({"claimedBy": {"not": None}}, {"Upper"}),
    ({"claimedBy": {"not": "nobody"}}, {"Upper"}),
    ({"claimedBy": {"not_in": ["nobody"]}}, {"Upper"}),
    ({"NOT": {"claimedBy": "nobody"}}, {"Upper"}),
    ({"OR": [{"claimedBy": None}, {"claimedBy": {"not": "nobody"}}]}, ALL),
    ({"timeoutSeconds": {"gt": 5}}, {"percent"}),
    ({"careful": True}, {"quoted"}),
    ({"careful": {"not": True}}, ALL - {"quoted"}),
    ({"source": "event"}, {"quoted"}),
    ({"source": {"in": ["event", "manual"]}}, ALL),
    ({"source": {"not": "manual"}}, {"quoted"}),
    ({"input": Json({"n": 1, "to": ["a", "b"]})}, {"json"}),
    ({"input": {"equals": Json({})}}, ALL - {"json"}),
    ({"input": {"not": Json({})}}, {"json"}),
    ({"progress": None}, ALL - {"json"}),
    ({"progress": {"not": None}}, {"json"}),
    ({"progress": {"not": Json({})}}, {"json"}),
    ({"dedupeHash": Base64.encode(b"\x01\x02")}, {"hashed"}),
    ({"dedupeHash": {"not": None}}, {"hashed"}),
    ({"dedupeHash": {"in": [Base64.encode(b"x")]}}, set()),
    ({"AND": []}, ALL),
    ({"OR": []}, set()),
    ({"NOT": []}, ALL),
    ({"AND": {}}, ALL),
    ({"OR": [{}]}, set()),
    ({"OR": [{}, {"priority": 5}]}, {"Upper", "quoted"}),
    ({"NOT": {}}, ALL),
    ({"AND": [{"jobType": "mail"}, {"priority": 9}]}, {"json"}),
    ({"AND": {"jobType": "mail", "priority": 9}}, {"json"}),
    ({"OR": [{"jobType": "sweep"}, {"priority": 9}]}, {"hashed", "json"}),
    ({"OR": [{"jobType": "mail", "priority": 1}, {"priority": -3}]}, {"plain", "percent"}),
    ({"NOT": [{"jobType": "mail"}, {"priority": 5}]}, {"percent", "hashed"}),
    ({"NOT": {"jobType": "mail", "priority": 1}}, ALL - {"plain"}),
    ({"NOT": {"OR": [{"jobType": "mail"}, {"priority": 5}]}}, {"percent", "hashed"}),
    ({"NOT": {"NOT": {"jobType": "mail"}}}, {"plain", "json"}),
    ({"jobType": "mail", "OR": [{"priority": 1}, {"priority": 5}]}, {"plain"}),
    ({"AND": [{"OR": [{"priority": 1}, {"priority": 9}]}, {"NOT": [{"progress": None}]}]}, {"json"}),
]


@pytest.mark.parametrize(("where", "names"), some(CASES, every=3), ids=[str(case[0]) for case in some(CASES, every=3)])
async def test_a_filter_finds_exactly_its_rows(jobs, where, names):
    found = await jobs.find_many(where=where)
    assert {job.correlationId for job in found} == names
    assert await jobs.count(where=where) == len(names)


async def test_every_way_of_reading_takes_the_same_filter(jobs):
    where = {"jobType": "mail", "priority": {"gt": 3}}
    assert (await jobs.find_first(where=where)).correlationId == "json"
    assert (await jobs.find_first_or_raise(where=where)).correlationId == "json"
    assert await jobs.update_many(where=where, data={"priority": 4}) == 1
    [group] = await jobs.group_by(["priority"], where=where, count=True)
    assert group == {"priority": 4, "_count": {"_all": 1}}
    assert await jobs.delete_many(where=where) == 1
    assert await jobs.find_first(where=where) is None


@pytest.mark.parametrize(
    "where",
    [
        {"nope": 1},
        {"job_type": "mail"},
        {"AND": [{"nope": 1}]},
        {"id; drop table atlas.jobs": 1},
        {"jobType\" = '' or true --": "x"},
        {"jobId_attemptNo": {}},
        {5: 1},
    ],
)
async def test_a_field_that_does_not_exist_is_refused(jobs, where):
    with pytest.raises(FieldNotFoundError):
        await jobs.find_many(where=where)
    assert await jobs.count() == len(ROWS)


@pytest.mark.parametrize(
    "where",
    [
        [],
        "",
        "priority = 1",
        [{"priority": 1}],
        {"AND": "x"},
        {"OR": [None]},
        {"OR": {"jobType": "mail", "priority": 1}},
        {"NOT": [5]},
        {"priority": {"in": 5}},
        {"priority": []},
    ],
)
async def test_a_filter_of_the_wrong_shape_is_refused(jobs, where):
    with pytest.raises(FieldNotFoundError):
        await jobs.find_many(where=where)


HOSTILE = [
    "'; drop table atlas.jobs; --",
    '"; drop table atlas.jobs; --',
    "\\'; drop table atlas.jobs; --",
    "$1",
    "%s",
    "{0}",
    "\\",
    "'' or 1=1",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_is_only_ever_a_value(jobs, tenant, text):
    made = await jobs.create({"tenantId": tenant.id, "jobType": text, "input": Json({text: text})})
    assert made.jobType == text
    assert made.input == {text: text}
    for operator in ("equals", "contains", "startswith", "endswith"):
        for mode in ("default", "insensitive"):
            where = {"correlationId": None, "jobType": {operator: text, "mode": mode}}
            assert await jobs.count(where=where) == 1
    assert await jobs.count(where={"jobType": {"in": [text]}}) == 1
    assert await jobs.update_many(where={"jobType": text}, data={"claimedBy": text}) == 1
    assert await jobs.delete_many(where={"claimedBy": text}) == 1
    assert await jobs.count() == len(ROWS)


@pytest.mark.parametrize("name", [*HOSTILE, 'x" from atlas.jobs; drop table atlas.jobs; --', "id) from jobs; --"])
async def test_hostile_names_are_refused_wherever_a_name_can_stand(db, jobs, tenant, name):
    calls = [
        lambda: jobs.find_many(where={name: 1}),
        lambda: jobs.find_many(where={"priority": {name: 1}}),
        lambda: jobs.find_many(order={name: "asc"}),
        lambda: jobs.find_many(order={"priority": name}),
        lambda: jobs.find_many(distinct=[name]),
        lambda: jobs.find_many(include={name: True}),
        lambda: jobs.find_many(include={"attempts": {name: 1}}),
        lambda: jobs.find_many(include={"attempts": {"where": {name: 1}}}),
        lambda: jobs.find_unique(where={name: 1}),
        lambda: jobs.count(select={name: True}),
        lambda: jobs.group_by([name], count=True),
        lambda: jobs.group_by(["priority"], sum={name: True}),
        lambda: jobs.group_by(["priority"], having={name: 1}),
        lambda: jobs.group_by(["priority"], order={name: "asc"}),
        lambda: jobs.create({"tenantId": tenant.id, "jobType": "x", name: 1}),
        lambda: jobs.create_many([{"tenantId": tenant.id, "jobType": "x", name: 1}]),
        lambda: jobs.update_many(where={}, data={name: 1}),
        lambda: jobs.update_many(where={}, data={"priority": {name: 1}}),
        lambda: db.jobattempt.find_unique(where={"jobId_attemptNo": {"jobId": tenant.id, "attemptNo": 1, name: 1}}),
    ]
    for call in calls:
        with pytest.raises(Exception) as refusal:
            await call()
        assert type(refusal.value).__module__ in ("atlas.generated.errors", "atlas.prisma_client.errors"), refusal.value
        assert refusal.value.__cause__ is None, "it reached the database"
    assert await jobs.count() == len(ROWS)
