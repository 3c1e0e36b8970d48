"""Explanations over HTTP: in one shape, for those who may read what they are about."""

from tests.engine.jobs.given import given_worker

NIGHTLY = {"label": "n", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"}


async def test_runs_triggers_and_workers_are_explained_to_those_who_may_read_them(world, operator, admin, conn):
    made = (await admin.post("/jobs/triggers", json=NIGHTLY)).json()["id"]
    run = (await admin.post("/intents", json={"workflow": "greet", "allow_unknown": True})).json()["id"]
    worker = await given_worker(conn, "x.work")
    other, enqueuer = world.client("other", "tenant_admin"), world.client("acme", "enqueuer")

    explained = {}
    for path in (f"/jobs/triggers/{made}/explain", f"/runs/{run}/explain"):
        response = await admin.get(path)
        assert response.status_code == 200, response.text
        explained[path] = response.json()
        assert (await other.get(path)).status_code == 404
    [trigger, of_run] = explained.values()
    assert (trigger["kind"], trigger["id"], trigger["reason"]) == ("trigger", made, "scheduled")
    assert (of_run["kind"], of_run["id"], of_run["reason"]) == ("run", run, "engine_silent")
    assert of_run["command"] == "atlas scheduler"
    assert (await enqueuer.get(f"/runs/{run}/explain")).status_code == 200
    assert (await enqueuer.get(f"/jobs/triggers/{made}/explain")).status_code == 403

    found = (await operator.get(f"/workers/{worker.id}/explain")).json()
    assert (found["kind"], found["status"], found["reason"]) == ("worker", "alive", "nothing_due")
    assert (await admin.get(f"/workers/{worker.id}/explain")).status_code == 403
    assert (await operator.get("/workers/box:1:x/explain")).status_code == 404
