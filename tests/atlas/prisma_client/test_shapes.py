"""Calls of one shape are composed once, and answer as if each had been composed."""

import pytest

from atlas.prisma_client.compile import reads, shapes

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def composed(monkeypatch) -> list[object]:
    """What was composed since the test began."""
    calls: list[object] = []

    def parse_page(*arguments, **options):
        calls.append(arguments[2])
        return original(*arguments, **options)

    original = reads.parse_page
    monkeypatch.setattr(reads, "parse_page", parse_page)
    monkeypatch.setattr(shapes, "_composed_pages", {})
    return calls


async def given_tenants(db, *slugs):
    for slug in slugs:
        await db.tenant.create({"slug": slug, "name": slug.upper()})


async def test_a_shape_is_composed_once_whatever_its_values(db, composed):
    await given_tenants(db, "a", "b", "c")
    composed.clear()
    for slug in ("a", "b", "c", "d"):
        where = {"slug": {"gte": slug}, "OR": [{"name": slug.upper()}, {"slug": {"in": [slug, "b"]}}]}
        found = await db.tenant.find_many(7, where=where, order={"slug": "asc"})
        assert [one.slug for one in found] == [one for one in "abc" if one >= slug and one in (slug, "b")]
        assert await db.tenant.count(where={"slug": slug}) == (slug != "d")
    assert len(composed) == 2


async def test_what_decides_more_than_a_value_is_another_shape(db, composed):
    await given_tenants(db, "a", "b", "c")
    composed.clear()
    calls = [
        {"where": {"slug": "a"}},
        {"where": {"name": "A"}},
        {"where": {"slug": {"lte": "a"}}},
        {"where": {"removingAt": None}},
        {"where": {"slug": "a"}, "order": {"slug": "asc"}},
        {"where": {"slug": "a"}, "order": {"slug": "desc"}},
        {"take": 1},
        {"skip": 1},
        {"include": {"hosts": True}},
        {"include": {"hosts": {"order_by": {"name": "asc"}}}},
        {"include": {"hosts": {"include": {"instances": True}}}},
    ]
    for call in calls * 2:
        await db.tenant.find_many(**call)
    assert len(composed) == len(calls)


async def test_a_value_that_is_more_than_a_parameter_is_composed_each_time(db, composed):
    for number, name in enumerate(("a%", "ab", "A_")):
        await db.tenant.create({"slug": f"t{number}", "name": name})
    for text, found in (("a%", ["a%"]), ("a", ["a%", "ab"]), ("_", ["A_"])):
        rows = await db.tenant.find_many(where={"name": {"contains": text}}, order={"slug": "asc"})
        assert [row.name for row in rows] == found
    for mode, found in (("insensitive", 3), ("default", 2), ("insensitive", 3)):
        assert await db.tenant.count(where={"name": {"startswith": "a", "mode": mode}}) == found
    for take in (1, -1, 2, -2, 0):
        rows = await db.tenant.find_many(take, where={"slug": {"not": "system"}}, order={"slug": "asc"})
        slugs = ["t0", "t1", "t2"]
        assert [row.slug for row in rows] == (slugs[:take] if take >= 0 else slugs[take:])


async def test_two_values_that_are_one_object_are_told_apart_later(db, composed):
    await given_tenants(db, "a", "b")
    for low, high, found in (("a", "a", ["a"]), ("a", "b", ["a", "b"]), ("b", "a", [])):
        rows = await db.tenant.find_many(where={"slug": {"lte": high, "gte": low}}, order={"slug": "asc"})
        assert [row.slug for row in rows] == found


async def test_wrong_values_of_a_known_shape_are_refused_as_ever(db, composed):
    await db.tenant.find_many(3, where={"id": "0190a4c8-0000-7000-8000-000000000001"})
    with pytest.raises(Exception, match=r"Tenant\.id") as known:
        await db.tenant.find_many(3, where={"id": "nonsense"})
    shapes._composed_pages.clear()
    with pytest.raises(type(known.value), match=r"Tenant\.id"):
        await db.tenant.find_many(3, where={"id": "nonsense"})


async def test_the_cache_has_a_bound(db, composed, monkeypatch):
    monkeypatch.setattr(shapes, "MAX_SHAPES", 3)
    for length in range(1, 9):
        await db.tenant.count(where={"OR": [{"slug": str(n)} for n in range(length)]})
    assert len(shapes._composed_pages) == 3
