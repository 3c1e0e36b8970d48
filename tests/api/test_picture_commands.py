"""The commands of an application for pictures over HTTP: its definitions, its triggers and its jobs, with their own payloads."""

from uuid import UUID, uuid4

import pytest

from atlas.cli.programs.examples import load_examples
from atlas.engine.triggers.fire_events import fire_due_events
from tests.support import DANA

SYNC = {
    "key": "sync-dropbox",
    "description": "Sync provider updates for tenant",
    "argv": ["zoltag", "sync-dropbox", "--tenant-id", "{{ tenant.id }}"],
    "programs": {"zoltag": "/opt/zoltag/bin/zoltag"},
    "arg_schema": {
        "type": "object",
        "properties": {"provider_id": {"type": "string", "format": "uuid"}, "path_prefix": {"type": "string"}},
        "required": ["provider_id"],
        "additionalProperties": False,
    },
    "timeout_seconds": 3600,
    "max_attempts": 3,
}
ON_FOLDER_CHANGE = {
    "label": "Resync on folder change",
    "trigger_type": "event",
    "event_name": "provider.folder.updated",
    "definition_key": "sync-dropbox",
    "payload_template": {"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"},
    "dedupe_window_seconds": 120,
}


@pytest.fixture
async def examples(conn) -> None:
    """The example definitions, as the demo has them."""
    await load_examples(conn, actor=DANA)


async def test_a_definition_names_its_program_and_checks_formats(operator, admin):
    made = await operator.post("/admin/jobs/definitions", json=SYNC)
    assert made.status_code == 201, made.text
    assert (made.json()["programs"], made.json()["max_attempts"]) == (SYNC["programs"], 3)

    refused = await admin.post("/jobs", json={"definition_key": "sync-dropbox", "payload": {"provider_id": "demo"}})
    assert refused.status_code == 422
    assert 'provider_id: the value is not a "uuid"' in refused.text.replace('\\"', '"')
    payload = {"provider_id": str(uuid4())}
    assert (await admin.post("/jobs", json={"definition_key": "sync-dropbox", "payload": payload})).status_code == 201


async def test_a_definition_without_argv_runs_the_program_of_the_installation(operator, settings):
    described = {name: value for name, value in SYNC.items() if name not in ("argv", "programs")}
    refused = await operator.post("/admin/jobs/definitions", json=described)
    object.__setattr__(settings, "atlas_command_program", "/opt/zoltag")
    made = await operator.post("/admin/jobs/definitions", json=described)

    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "argv")
    assert "set ATLAS_COMMAND_PROGRAM" in refused.json()["remedy"]
    assert made.status_code == 201, made.text
    assert made.json()["argv"] == ["/opt/zoltag", "sync-dropbox", "--tenant-id", "{{ tenant.id }}"]


@pytest.mark.usefixtures("examples")
async def test_a_job_of_a_command_is_enqueued_by_hand(admin, world):
    described = {
        "definition_key": "recompute-trained-tags",
        "payload": {"model": "siglip"},
        "priority": 100,
        "scheduled_for": "2026-02-16T10:30:00Z",
        "dedupe_key": "tenant:bcg:training:daily",
    }
    made = await admin.post("/jobs", json=described)

    assert made.status_code == 201, made.text
    job = made.json()
    assert UUID(job["id"])
    assert job["queued_at"]
    assert (job["tenant_id"], job["status"]) == (str(world.acme.id), "queued")
    assert job["definition_key"] == "recompute-trained-tags"


@pytest.mark.usefixtures("examples")
async def test_an_event_starts_the_command_of_its_trigger(admin, conn):
    assert (await admin.post("/jobs/triggers", json=ON_FOLDER_CHANGE)).status_code == 201
    context = {"provider_id": str(uuid4()), "folder_path": "/photos"}
    await admin.post("/events", json={"name": "provider.folder.updated", "context": context})
    assert (await fire_due_events(conn)).fired == 1

    [job] = (await admin.get("/jobs?source=event")).json()["items"]
    assert (job["definition_key"], job["payload"]["path_prefix"]) == ("sync-dropbox", "/photos")


@pytest.mark.usefixtures("examples")
async def test_a_schedule_without_the_provider_can_never_fit(admin):
    nightly = {
        "label": "Nightly provider sync",
        "trigger_type": "schedule",
        "cron_expr": "0 2 * * *",
        "timezone": "America/New_York",
        "definition_key": "sync-dropbox",
        "payload_template": {"path_prefix": "/"},
    }
    refused = await admin.post("/jobs/triggers", json=nightly)
    assert refused.status_code == 422
    assert "can never fit sync-dropbox" in refused.text
    nightly["payload_template"] = {"provider_id": str(uuid4()), "path_prefix": "/"}
    made = await admin.post("/jobs/triggers", json=nightly)
    assert (made.status_code, made.json()["target_exists"]) == (201, True)


@pytest.mark.parametrize(
    ("context", "reason"), [({"provider_id": "p1", "folder_path": "/"}, "not a"), ({"folder_path": "/"}, "provider_id")]
)
@pytest.mark.usefixtures("examples")
async def test_a_payload_that_does_not_fit_is_refused_alike_to_all_who_may_fire(
    admin, operator, world, conn, context, reason
):
    trigger = (await admin.post("/jobs/triggers", json=ON_FOLDER_CHANGE)).json()["id"]
    by_tenant = await admin.post(f"/jobs/triggers/{trigger}/fire", json={"context": context})
    by_operator = await operator.post(f"/jobs/triggers/{trigger}/fire?tenant=acme", json={"context": context})

    assert (by_tenant.status_code, by_operator.status_code) == (409, 409), by_tenant.text
    assert "could not fire" in by_tenant.text
    assert reason in by_tenant.text
    assert (await admin.get(f"/jobs/triggers/{trigger}/fires")).json()["items"] == []

    good = {"provider_id": str(uuid4()), "folder_path": "/"}
    fired = await admin.post(f"/jobs/triggers/{trigger}/fire", json={"context": good})
    assert fired.status_code == 201, fired.text
    assert len((await admin.get(f"/jobs/triggers/{trigger}/fires")).json()["items"]) == 1
