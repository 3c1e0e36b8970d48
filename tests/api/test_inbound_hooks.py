"""Messages that others post: signed ones become events, once, and all others nothing."""

import time

import httpx
import orjson
import pytest

from atlas.api.app import create_app
from atlas.api.limits.rates import Rates
from atlas.engine.triggers.fire_events import fire_due_events
from atlas.engine.triggers.store import add_trigger
from atlas.engine.webhooks.signature import sign
from tests.api.conftest import furnish, running
from tests.support import DANA

MESSAGE = {"type": "invoice.paid", "data": {"invoice": 4711}}


@pytest.fixture
async def hook(admin):
    made = await admin.post("/inbound-hooks", json={"event_name": "shop.paid", "description": "the shop"})
    assert made.status_code == 201, made.text
    return made.json()


@pytest.fixture
def post(world, hook):
    """Post a message, signed now with the hook's secret unless the test says otherwise."""

    async def post(value=MESSAGE, *, id="msg_1", age=0, secret=None, path=None, **changes):
        body = value if isinstance(value, bytes) else orjson.dumps(value)
        headers = sign([secret or hook["secret"]], id, int(time.time()) - age, body)
        headers |= {"Content-Type": "application/json", **changes}
        transport = httpx.ASGITransport(world.app, raise_app_exceptions=False, client=("10.9.9.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://atlas.test") as sender:
            return await sender.post(path or hook["path"], content=body, headers=headers)

    return post


async def test_who_holds_a_revoked_token_posts_no_message_to_the_hooks_it_knew(world, admin, operator, post, hook):
    made = (await admin.post("/tokens", json={"subject": "thief", "role": "tenant_admin"})).json()
    thief = world.client("acme", "tenant_admin")
    thief.headers["Authorization"] = f"Bearer {made['token']}"
    left = (await thief.post("/inbound-hooks", json={"event_name": "left.behind"})).json()
    taken = (await thief.post(f"/inbound-hooks/{hook['id']}/rotate-secret", json={})).json()
    assert (await post(secret=left["secret"], path=left["path"])).status_code == 200

    revoked = (await operator.delete(f"/tokens/{made['id']}", params={"with_created": True})).json()
    assert sorted(revoked["hooks"]) == sorted([left["id"], hook["id"]])
    for known, path in (
        (left["secret"], left["path"]),
        (taken["secret"], hook["path"]),
        (hook["secret"], hook["path"]),
    ):
        assert (await post(secret=known, path=path)).status_code == 403

    new = (await admin.post(f"/inbound-hooks/{hook['id']}/rotate-secret", json={})).json()
    assert (await post(secret=new["secret"], id="msg_2")).status_code == 200
    # What someone else has rotated since stays.
    again = (await operator.delete(f"/tokens/{made['id']}", params={"with_created": True})).json()
    assert again["hooks"] == []


async def events(conn):
    rows = await conn.fetch("select id, name, context, correlation_id, created_by from atlas.events")
    return [{**row, "context": orjson.loads(row["context"])} for row in rows]


async def test_a_signed_message_becomes_an_event_of_the_hooks_tenant(post, conn, world, hook):
    described = {"label": "t", "trigger_type": "event", "event_name": "shop.paid", "job_type": "x.work"}
    template = {"payload_template": {"invoice": "{{ event.data.invoice }}"}}
    await add_trigger(conn, world.acme.id, {**described, **template}, actor=DANA)

    response = await post()

    assert response.status_code == 200, response.text
    [event] = await events(conn)
    assert response.json() == {"event_id": str(event["id"]), "repeated": False}
    assert (event["name"], event["context"], event["correlation_id"]) == ("shop.paid", MESSAGE, "msg_1")
    assert event["created_by"] == f"hook:{hook['id']}"
    await fire_due_events(conn)
    job = await conn.fetchrow("select input, tenant_id from atlas.jobs where job_type = 'x.work'")
    assert (orjson.loads(job["input"]), job["tenant_id"]) == ({"invoice": 4711}, world.acme.id)
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'EVENT_PUBLISHED'") == 1


async def test_a_message_that_is_sent_again_changes_nothing(post, conn):
    first, again, other = await post(), await post(age=3), await post(id="msg_2")

    assert [one.json()["repeated"] for one in (first, again, other)] == [False, True, False]
    assert first.json()["event_id"] == again.json()["event_id"]
    assert len(await events(conn)) == 2


async def test_a_message_id_that_comes_with_another_body_is_a_conflict(post, conn):
    await post({"amount": 1.50, "to": "ann"})
    again = await post({"to": "ann", "amount": 1.5})
    other = await post({"amount": 150, "to": "ann"})

    assert (again.status_code, again.json()["repeated"]) == (200, True)
    assert other.status_code == 409
    assert "'msg_1' was received before with another body" in other.json()["detail"]
    assert [event["context"]["amount"] for event in await events(conn)] == [1.5]


@pytest.mark.parametrize("age", [301, -3600, 10**6])
async def test_an_old_message_is_refused(post, conn, age):
    response = await post(age=age)

    assert response.status_code == 403
    assert "timestamp is not within 300 s" in response.json()["detail"]
    assert await events(conn) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": "whsec_" + "A" * 44},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "nothing"},
        {"webhook-id": "msg_2"},
        {"webhook-timestamp": str(int(time.time()) + 1)},
        {"webhook-timestamp": "now"},
    ],
    ids=["secret", "signature", "no version", "id", "time", "no time"],
)
async def test_a_message_that_is_not_signed_so_is_refused(post, conn, changes):
    response = await post(**changes)

    assert response.status_code == 403
    assert "not signed with this hook's secret" in response.json()["detail"]
    assert await events(conn) == []


async def test_one_of_several_signatures_is_enough(post):
    body = orjson.dumps(MESSAGE)
    old = sign(["whsec_" + "A" * 44], "msg_1", int(time.time()), body)["webhook-signature"]
    first = (await post()).request.headers
    # It signs the time too.
    again = {"webhook-timestamp": first["webhook-timestamp"]}

    assert (await post(**again, **{"webhook-signature": f"{old} {first['webhook-signature']}"})).status_code == 200


async def test_what_is_not_json_or_too_much_is_refused(post):
    assert (await post(b"not json")).status_code == 422
    assert (await post(b'"' + b"x" * 300_000 + b'"')).status_code == 413
    assert (await post([1, 2])).json()["repeated"] is False
    assert (await post(path="/hooks/" + "x" * 32)).status_code == 404
    assert (await post(path="/hooks/short")).status_code == 422


async def test_a_hook_that_was_removed_accepts_nothing(post, admin, hook, conn):
    assert (await post()).status_code == 200
    assert (await admin.delete(f"/inbound-hooks/{hook['id']}")).status_code == 204

    assert (await post(id="msg_2")).status_code == 404
    rows = await conn.fetch("select action from atlas.audit_log where entity_id = $1 order by id", hook["id"])
    assert [row["action"] for row in rows] == ["HOOK_ADDED", "HOOK_REMOVED"]


async def test_the_secret_is_shown_once(admin, hook):
    shown = await admin.get(f"/inbound-hooks/{hook['id']}")
    listed = await admin.get("/inbound-hooks")

    assert shown.json() == {name: value for name, value in hook.items() if name != "secret"}
    assert hook["secret"] not in shown.text + listed.text


async def test_the_old_secret_of_a_rotated_hook_holds_until_its_end(admin, post, hook, conn):
    rotated = await admin.post(f"/inbound-hooks/{hook['id']}/rotate-secret", json={})
    assert rotated.status_code == 200, rotated.text
    second = rotated.json()["secret"]
    assert second != hook["secret"]
    for id, secret in (("a", hook["secret"]), ("b", second)):
        assert (await post(id=id, secret=secret)).status_code == 200

    third = await admin.post(f"/inbound-hooks/{hook['id']}/rotate-secret", json={"overlap_seconds": 0})
    answers = {secret: await post(id="c", secret=secret) for secret in (hook["secret"], second, third.json()["secret"])}
    assert [answer.status_code for answer in answers.values()] == [403, 403, 200]
    rows = await conn.fetch("select body from atlas.audit_log where action = 'HOOK_SECRET_ROTATED' order by id")
    assert len(rows) == 2
    assert all(secret not in str(row["body"]) for row in rows for secret in answers)


async def test_hooks_have_rates_of_their_own(pool, database_url, settings):
    """Messages to one hook, and wrong keys of one address, which fill up again slower than any machine sends them."""
    app = create_app(settings, pool, database_url, rates=Rates(failures=0.01))
    async with running(app):
        world = await furnish(pool, app)
        async with world.client("acme", "tenant_admin") as admin:
            made = (await admin.post("/inbound-hooks", json={"event_name": "x"})).json()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://atlas.test") as sender:
            headers = sign(["whsec_wrong"], "m", 1, b"{}")
            statuses = [
                (await sender.post(made["path"], content=b"{}", headers=headers)).status_code for _ in range(25)
            ]
            assert set(statuses) == {403, 429}
            unknown = await sender.post("/hooks/" + "y" * 32, content=b"{}", headers=headers)
            assert unknown.status_code == 429
            assert int(unknown.headers["retry-after"]) >= 1
        hooks = app.state.api.inbound_hooks
        with pytest.raises(Exception, match="too many requests to this hook"):
            for _ in range(1000):
                await hooks.find(made["path"].removeprefix("/hooks/"), "10.0.0.1")
