"""Events over HTTP: what came, newest first, by name, sender and time."""


async def names(client, **query):
    answer = await client.get("/events", params=query)
    assert answer.status_code == 200, answer.text
    return [item["name"] for item in answer.json()["items"]]


async def test_events_are_listed_and_filtered(admin, world):
    other = world.client("other", "tenant_admin")
    for name in ("invoice.paid", "invoice.sent", "order.made"):
        await admin.post("/events", json={"name": name, "context": {"n": name}, "correlation_id": f"c-{name}"})
    published = (await other.post("/events", json={"name": "invoice.paid"})).json()

    assert await names(admin) == ["order.made", "invoice.sent", "invoice.paid"]
    assert await names(admin, name="invoice.paid") == ["invoice.paid"]
    assert await names(admin, name="invoice.*") == ["invoice.sent", "invoice.paid"]
    assert await names(admin, correlation_id="c-order.made") == ["order.made"]
    assert await names(admin, created_by="someone") == []
    assert await names(admin, since="2100-01-01T00:00:00Z") == []
    assert await names(admin, until="2100-01-01T00:00:00Z", limit=1) == ["order.made"]
    assert len(await names(world.client())) == 4
    assert await names(world.client(), tenant="other") == ["invoice.paid"]
    [shown] = (await other.get("/events")).json()["items"]
    assert shown == (await other.get(f"/events/{published['id']}")).json()
    assert (shown["created_by"], shown["run_id"], shown["context"]) == ("tenant_admin@other", None, {})
    assert (await admin.get(f"/events/{published['id']}")).status_code == 404
