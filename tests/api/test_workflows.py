"""Declared workflows over HTTP: versions, roll back, dry run, and what policy would say."""

import asyncio

import pytest

from atlas.engine.workflows.intents import request_workflow, take_intents
from tests.api.test_bad_input import assert_problem
from tests.support import DANA


def doc(*steps, key="order", **more):
    return {"key": key, "steps": list(steps) or [{"id": "wait", "sleep": "10m"}], **more}


def nap(minutes):
    return doc({"id": "wait", "sleep": f"{minutes}m"})


async def save(client, document, **more):
    answer = await client.post("/workflows", json={"document": document, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def versions(client, **query):
    return (await client.get("/workflows/order/versions", params=query)).json()


async def test_versions_are_listed_newest_first_by_page_and_read_one_by_one(admin):
    for minutes in (1, 2, 3):
        await save(admin, nap(minutes))

    first = await versions(admin, limit=2)
    rest = await versions(admin, limit=2, cursor=first["next_cursor"])
    one = (await admin.get("/workflows/order/versions/2")).json()

    assert [item["version"] for item in first["items"] + rest["items"]] == [3, 2, 1]
    assert rest["next_cursor"] is None
    assert one["document"] == nap(2)
    assert_problem(await admin.get("/workflows/order/versions/4"), 404)
    assert_problem(await admin.get("/workflows/order/versions/x"), 422)


async def test_a_tenants_own_versions_come_before_everyones_and_others_see_none_of_them(operator, admin, world):
    await save(operator, nap(1))
    await save(operator, nap(2))
    shared = await versions(admin)
    await save(admin, nap(5))
    own = await versions(admin)

    assert [item["tenant_id"] for item in shared["items"]] == [None, None]
    assert [(item["version"], item["tenant_id"]) for item in own["items"]] == [(1, str(world.acme.id))]
    theirs = await versions(world.client("other", "enqueuer"))
    assert [item["version"] for item in theirs["items"]] == [2, 1]
    assert [item["version"] for item in (await versions(operator))["items"]] == [2, 1]
    assert [item["version"] for item in (await versions(operator, tenant="acme"))["items"]] == [1]
    assert_problem(await admin.post("/workflows/order/rollback", json={"version": 2}), 404)


async def test_the_first_version_after_code_pages_through_to_the_code(admin, operator, conn):
    await conn.execute(
        "insert into atlas.workflows (key, version, kind, created_by) values ('order', 0, 'code', 'worker')"
    )
    await save(operator, nap(1))
    first = await versions(operator, limit=1)
    second = await versions(operator, limit=1, cursor=first["next_cursor"])
    end = await versions(operator, limit=1, cursor=second["next_cursor"])

    assert (second["items"][0]["version"], second["items"][0]["document"], end["items"]) == (0, None, [])
    refused = await operator.post("/workflows/order/rollback", json={"version": 0})
    assert "in the code of workers" in assert_problem(refused, 409)["detail"]


async def test_two_editors_do_not_overwrite_each_other(admin, world):
    assert (await save(admin, nap(1), expected_version=0))["version"] == 1
    other = world.client("acme", "tenant_admin")
    answers = await asyncio.gather(
        *(
            client.post("/workflows", json={"document": nap(minutes), "expected_version": 1})
            for client, minutes in ((admin, 2), (other, 3))
        )
    )

    assert sorted(answer.status_code for answer in answers) == [201, 409]
    late = await admin.post("/workflows", json={"document": nap(4), "expected_version": 1})
    problem = assert_problem(late, 409)
    assert "is at version 2, by tenant_admin@acme, and not at version 1" in problem["detail"]
    assert "version 2 as the expected one" in problem["remedy"]
    first = await admin.post("/workflows", json={"document": doc(key="new"), "expected_version": 1})
    assert_problem(first, 409)
    assert_problem(await admin.post("/workflows", json={"document": nap(4), "expected_version": -1}), 422)


async def test_rolling_back_saves_the_old_document_again_and_is_audited(admin, conn):
    for minutes in (1, 2):
        await save(admin, nap(minutes))
    stale = await admin.post("/workflows/order/rollback", json={"version": 1, "expected_version": 1})
    back = await admin.post("/workflows/order/rollback", json={"version": 1, "expected_version": 2})
    again = await admin.post("/workflows/order/rollback", json={"version": 1})

    assert_problem(stale, 409)
    assert (back.status_code, back.json()["version"], back.json()["is_new"]) == (201, 3, True)
    assert (again.json()["version"], again.json()["is_new"]) == (3, False)
    assert (await admin.get("/workflows/order")).json()["document"] == nap(1)
    query = "select body from atlas.audit_log where action = 'WORKFLOW_ROLLED_BACK' and entity_id = 'order'"
    [row] = await conn.fetch(query)
    assert '"restored_from":1' in str(row["body"]).replace(" ", "")


async def test_running_runs_keep_their_version_and_the_summary_counts_both(admin, operator, conn, world):
    for minutes in (1, 2):
        await save(admin, nap(minutes))
        await request_workflow(conn, world.acme.id, "order", {}, DANA)
        await take_intents(conn, "tests")

    counted = (await admin.get("/runs/summary")).json()["items"]

    assert [(one["workflow"], one["version"], one["total"], one["active"]) for one in counted] == [
        ("order", 1, 1, 1),
        ("order", 2, 1, 1),
    ]
    assert (await operator.get("/runs/summary")).json()["items"] == counted
    assert (await world.client("other", "enqueuer").get("/runs/summary")).json()["items"] == []


async def test_a_dry_run_decides_with_what_is_published_and_changes_nothing(admin, world, conn):
    await save(admin, doc(key="child", inputSchema={"type": "object", "required": ["n"]}))
    before = await conn.fetchval("select count(*) from atlas.audit_log")
    body = {
        "document": doc(
            {"id": "ask", "approval": "Pay {{ input.who }}?"},
            {"id": "pay", "needs": ["ask"], "if": "steps.ask.output.approved", "job": "no.such", "with": {"x": 1}},
            {"id": "sub", "workflow": "child", "with": {}},
        ),
        "input": {"who": "ann"},
        "outputs": {"ask": {"approved": False}},
    }
    found = (await admin.post("/workflows/dry-run", json=body)).json()

    ask, pay, sub = found["steps"]
    assert (found["ok"], ask["target"], pay["decision"], sub["decision"]) == (False, "Pay ann?", "skipped", "fails")
    assert sub["errors"] == [{"field": "steps[2].with", "reason": '"n" is a required property'}]
    # Another tenant does not see the child workflow.
    theirs = (await world.client("other", "auditor").post("/workflows/dry-run", json=body)).json()
    assert theirs["steps"][2]["warnings"][0]["field"] == "steps[2].workflow"
    assert await conn.fetchval("select count(*) from atlas.audit_log") == before

    wrong = await admin.post("/workflows/dry-run", json={"document": {"key": "d"}})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (200, "steps")
    assert_problem(await admin.post("/workflows/dry-run", json={"document": []}), 422)


async def test_the_schema_and_the_names_of_templates_are_given_to_editors(world):
    found = (await world.client("acme", "enqueuer").get("/workflow-schema")).json()

    assert found["document_schema"]["required"] == ["key", "steps"]
    assert "default" in found["template_filters"]
    assert "(measured)" not in found["template_filters"]
    assert "defined" in found["template_tests"]


@pytest.mark.parametrize(
    ("rule", "spend", "effect"),
    [
        (None, 0, "allow"),
        ({"label": "look", "effect": "review", "spend_above_cents": 100}, 101, "review"),
        ({"label": "look", "effect": "review", "spend_above_cents": 100}, 100, "allow"),
        ({"label": "never", "effect": "block", "workflow": "ord*"}, 0, "block"),
        ({"label": "once", "effect": "block", "runs_per_day": 0}, 0, "block"),
    ],
)
async def test_policy_is_asked_without_a_request(operator, admin, world, conn, rule, spend, effect):
    await save(admin, nap(1))
    if rule is not None:
        added = await operator.post("/policies", json=rule, params={"tenant": "acme"})
        assert added.status_code == 201, added.text

    verdict = (await admin.post("/policies/check", json={"workflow": "order", "spend_cents": spend})).json()

    assert (verdict["effect"], verdict["is_known"]) == (effect, True)
    if effect != "allow":
        assert verdict["facts"]["rule"] == rule["label"]
    theirs = (await world.client("other", "auditor").post("/policies/check", json={"workflow": "order"})).json()
    assert (theirs["effect"], theirs["is_known"]) == ("allow", False)
    assert await conn.fetchval("select count(*) from atlas.intents") == 0
    assert_problem(await admin.post("/policies/check", json={"workflow": "order", "spend_cents": -1}), 422)
