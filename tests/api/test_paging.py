"""Lists come in pages: every item once, in one order, also while new ones arrive."""

import pytest

import atlas.api.paging
from atlas.audit import seal_and_sign
from tests.api.given import furnish_installation, furnish_tenant

THINGS = 7


@pytest.fixture
async def things(pool, world, settings, operator):
    """Several of everything that is listed in pages."""
    await furnish_installation(pool)
    found = await furnish_tenant(pool, world.acme)
    admin = world.client("acme", "tenant_admin")
    for n in range(THINGS):
        schedule = {"label": f"t{n}", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"}
        await admin.post("/jobs/triggers", json=schedule)
        await admin.post("/intents", json={"workflow": "greet-acme"})
        await admin.post("/workflows", json={"document": {"key": f"w{n // 2}", "steps": [{"id": f"s{n}", "sleep": 0}]}})
        await operator.post("/workflows", json={"document": {"key": f"w{n}", "steps": [{"id": "a", "sleep": 0}]}})
        await admin.post("/jobs", json={"job_type": "x.work"})
        await seal_and_sign(pool, settings)
    return found


def paged(spec):
    """The addresses that take a cursor."""
    return [
        path
        for path, ones in spec["paths"].items()
        if any(one["name"] == "cursor" for one in ones.get("get", {}).get("parameters", []))
    ]


async def pages(client, path, limit, between=None):
    """All items, page by page."""
    seen, cursor = [], None
    while True:
        query = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
        page = (await client.get(path, params=query)).json()
        assert len(page["items"]) <= limit
        seen += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return seen
        if between is not None:
            await between()


def name_of(item):
    return item.get("id") or item.get("n") or item.get("size")


async def test_every_paged_list_returns_each_item_once_whatever_the_page_size(things, operator):
    spec = (await operator.get("http://atlas.test/openapi.json")).json()
    addresses = paged(spec)
    assert len(addresses) >= 8
    assert "/api/v1/workflows" in addresses
    for path in addresses:
        whole = [name_of(item) for item in await pages(operator, f"http://atlas.test{path}", 200)]
        assert len(whole) == len(set(whole)), path
        for limit in (1, 3, len(whole)) if whole else ():
            assert [name_of(one) for one in await pages(operator, f"http://atlas.test{path}", limit)] == whole, path


async def test_items_added_between_two_pages_shift_nothing(things, admin):
    async def arrive():
        await admin.post("/jobs", json={"job_type": "y.work"})
        await admin.post("/intents", json={"workflow": "greet-acme"})

    for path in ("/jobs", "/intents", "/audit"):
        before = [name_of(item) for item in await pages(admin, path, 200)]
        seen = [name_of(item) for item in await pages(admin, path, 2, arrive)]
        assert seen == before, path


async def test_items_removed_between_two_pages_hide_no_other(things, admin):
    before = [item["id"] for item in await pages(admin, "/jobs", 200)]
    first = (await admin.get("/jobs", params={"limit": 3})).json()
    for id in (before[1], before[2]):  # the last one is the cursor itself
        assert (await admin.delete(f"/jobs/{id}")).status_code == 204
    rest = (await admin.get("/jobs", params={"limit": 200, "cursor": first["next_cursor"]})).json()

    assert [item["id"] for item in rest["items"]] == before[3:]


async def test_pages_are_never_larger_than_two_hundred(admin, operator):
    spec = (await operator.get("http://atlas.test/openapi.json")).json()
    for path in paged(spec):
        if "{" not in path:
            assert (await operator.get(f"http://atlas.test{path}", params={"limit": 201})).status_code == 422
            assert (await operator.get(f"http://atlas.test{path}", params={"limit": 0})).status_code == 422
            assert (await operator.get(f"http://atlas.test{path}", params={"cursor": "x'"})).status_code == 422


async def test_pages_of_large_things_end_early_and_miss_nothing(world, admin, monkeypatch):
    monkeypatch.setattr(atlas.api.paging, "MOST_BYTES", 10_000)
    monkeypatch.setattr(atlas.api.paging, "PIECE", 3)
    for n in range(10):
        await admin.post("/intents", json={"workflow": "greet", "input": {"n": n, "x": "x" * 2_000}})
    seen, sizes, cursor = [], [], None
    while True:
        page = (await admin.get("/intents", params={"limit": 8} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [one["input"]["n"] for one in page["items"]]
        sizes.append(len(page["items"]))
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == list(range(9, -1, -1))
    assert sizes == [6, 4]
