"""The steps of a run over HTTP: all of them briefly, and one of them whole."""

from tests.api.given import furnish_tenant
from tests.support import DANA

ROWS = """
insert into atlas.workflow_steps
  (run_id, branch, position, tenant_id, name, kind, status, started_at, child_id, approval_id, input, output, error)
values
  ($1, 'check/', 0, $2, 'check', 'job', 'waiting', '2026-01-01T00:00:01Z', $3, null, null, null, null),
  ($1, 'pay/', 0, $2, 'pay', 'approval', 'succeeded', '2026-01-01T00:00:02Z', null, $4, '{}', '{"approved": false}', null),
  ($1, 'gather[1]/', 0, $2, 'large', 'step', 'failed', '2026-01-01T00:00:03Z', null, null, '["in"]', to_json(repeat('x', 100000)),
   jsonb_build_object('message', repeat('y', 9000), 'type', 'Broken', 'traceback', repeat('z', 9000))),
  ($1, '', 0, $2, 'sub', 'child', 'waiting', '2026-01-01T00:00:04Z', $1, null, null, null, null)
"""


async def given_steps(pool, world):
    found = await furnish_tenant(pool, world.acme)
    ids = (found["run_id"], world.acme.id, found["job_id"], found["approval_id"])
    await pool.execute(ROWS, *ids)
    await pool.execute(
        "update atlas.approvals set status = 'rejected', decided_at = now(), decided_by = $2 where id = $1",
        found["approval_id"],
        DANA.id,
    )
    return f"/runs/{found['run_id']}/steps"


async def test_steps_are_listed_briefly_with_what_they_are_about(pool, world, admin):
    path = await given_steps(pool, world)
    whole = (await admin.get(path)).json()["items"]
    answer = await admin.get(f"{path}/brief", params={"limit": 200})
    brief = answer.json()["items"]

    assert len(answer.content) < 10_000
    assert [one["key"] for one in brief] == ["check", "pay", "gather[1]/large", "sub"]
    assert [one["child_name"] for one in brief] == ["x.work", None, None, "greet-acme"]
    assert [(one["approval_status"], one["decided_by"]) for one in brief][1] == ("rejected", "dana")
    assert brief[2]["error"] == {"message": "y" * 300, "type": "Broken"}
    assert brief == [
        {name: value for name, value in one.items() if name not in ("input", "output", "error")}
        | {"error": short["error"]}
        for one, short in zip(whole, brief, strict=True)
    ]


async def test_one_step_is_found_by_its_key_and_whole(pool, world, admin):
    path = await given_steps(pool, world)
    for key in ("pay", "gather[1]/large", "sub", "pay/pay"):
        [found] = (await admin.get(path, params={"key": key})).json()["items"]
        assert found["key"] == key.removeprefix("pay/")
    [large] = (await admin.get(path, params={"key": "gather[1]/large"})).json()["items"]

    assert (len(large["output"]), len(large["error"]["traceback"]), large["input"]) == (100_000, 9000, ["in"])
    assert (await admin.get(path, params={"key": "gone"})).json()["items"] == []
    assert (await admin.get(path, params={"key": "x" * 1001})).status_code == 422
    assert (await world.client("other", "tenant_admin").get(f"{path}/brief")).status_code == 404
    assert (await admin.get("/runs/00000000-0000-7000-8000-000000000000/steps/brief")).status_code == 404
