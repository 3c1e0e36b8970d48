"""Webhooks over the API: a tenant's administrator manages its own, and sees a secret once."""

WEBHOOK = {"url": "https://shop.example/atlas", "events": ["job.failed", "run.*"], "description": "to the shop"}


async def test_an_administrator_manages_webhooks(admin, world, conn):
    made = await admin.post("/webhooks", json=WEBHOOK)
    assert made.status_code == 201, made.text
    webhook = made.json()
    address = f"/webhooks/{webhook['id']}"
    assert {name: webhook[name] for name in WEBHOOK} == WEBHOOK
    assert (webhook["tenant_id"], webhook["is_enabled"]) == (str(world.acme.id), True)
    assert webhook["secret"].startswith("whsec_")

    shown = await admin.get(address)
    assert shown.json() == {name: value for name, value in webhook.items() if name != "secret"}
    assert [item["id"] for item in (await admin.get("/webhooks")).json()["items"]] == [webhook["id"]]

    changed = await admin.patch(address, json={"is_enabled": False}, headers={"If-Match": shown.headers["etag"]})
    assert (changed.status_code, changed.json()["is_enabled"]) == (200, False)
    stale = await admin.patch(address, json={"is_enabled": True}, headers={"If-Match": shown.headers["etag"]})
    assert stale.status_code == 412
    assert (await admin.delete(address)).status_code == 204
    assert (await admin.get(address)).status_code == 404
    rows = await conn.fetch(
        "select action, actor_id from atlas.audit_log where entity_id = $1 order by id", webhook["id"]
    )
    assert [tuple(row) for row in rows] == [
        (f"WEBHOOK_{what}", "tenant_admin@acme") for what in ("ADDED", "EDITED", "REMOVED")
    ]


async def test_a_test_is_a_job_of_the_tenant(admin, world, conn):
    webhook = (await admin.post("/webhooks", json=WEBHOOK)).json()

    sent = await admin.post(f"/webhooks/{webhook['id']}/test")

    assert sent.status_code == 201
    job = (await admin.get(f"/jobs/{sent.json()['job_id']}")).json()
    assert (job["job_type"], job["payload"]["webhook"], job["max_retries"]) == ("HTTP_CALL", webhook["id"], 0)
    listed = await admin.get("/jobs", params={"correlation_id": f"webhook:{webhook['id']}"})
    assert [item["id"] for item in listed.json()["items"]] == [sent.json()["job_id"]]


async def test_a_wrong_webhook_is_refused_with_its_fields(admin):
    response = await admin.post("/webhooks", json={"url": "ftp://shop.example", "events": ["job.*"]})
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "url")

    response = await admin.post("/webhooks", json={**WEBHOOK, "events": ["job.exploded"]})
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "events.0")
