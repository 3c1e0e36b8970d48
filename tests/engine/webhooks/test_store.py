"""Webhooks are added, changed and removed; each change is audited, and the secret is shown once."""

import pytest

from atlas.engine.etags import Stale
from atlas.engine.webhooks.events import EVENTS
from atlas.engine.webhooks.store import add_webhook, edit_webhook, find_webhook, list_webhooks, remove_webhook
from atlas.errors import InvalidInput, NotFound
from tests.support import DANA, given_tenant

URL = "https://shop.example/atlas"


async def actions(conn, webhook):
    rows = await conn.fetch("select action from atlas.audit_log where entity_id = $1 order by id", str(webhook.id))
    return [row["action"] for row in rows]


async def test_a_webhook_is_added_changed_and_removed(conn):
    tenant, other = await given_tenant(conn), await given_tenant(conn, "other")
    webhook, _ = await add_webhook(conn, tenant, URL, ["job.failed"], description="to the shop", actor=DANA)
    assert await find_webhook(conn, webhook.id, tenant_id=tenant) == webhook
    assert await list_webhooks(conn, tenant_id=other) == []
    with pytest.raises(NotFound):
        await find_webhook(conn, webhook.id, tenant_id=other)

    changed = await edit_webhook(conn, webhook.id, {"events": ["*"]}, actor=DANA, if_match={webhook.etag})
    assert (changed.events, changed.url, changed.description) == (["*"], URL, "to the shop")
    with pytest.raises(Stale):
        await edit_webhook(conn, webhook.id, {"events": ["job.*"]}, actor=DANA, if_match={webhook.etag})

    await remove_webhook(conn, webhook.id, actor=DANA)
    assert await list_webhooks(conn) == []
    assert await actions(conn, webhook) == ["WEBHOOK_ADDED", "WEBHOOK_EDITED", "WEBHOOK_REMOVED"]


async def test_the_secret_is_shown_once(conn, owner):
    webhook, secret = await add_webhook(conn, await given_tenant(conn), URL, ["*"], actor=DANA)

    assert secret.startswith("whsec_")
    stored = str(await owner.fetch("select * from atlas.webhooks")) + str(
        await owner.fetch("select * from atlas.audit_log")
    )
    assert secret not in stored
    assert secret not in str(webhook)


@pytest.mark.parametrize(
    ("url", "events", "field"),
    [
        ("shop.example", ["*"], "url"),
        ("https://a:b@shop.example", ["*"], "url"),
        (URL, [], "events"),
        (URL, ["job.failed", "job.exploded"], "events.1"),
        (URL, ["job"], "events.0"),
    ],
)
async def test_a_wrong_webhook_is_refused(conn, url, events, field):
    with pytest.raises(InvalidInput) as refused:
        await add_webhook(conn, await given_tenant(conn), url, events, actor=DANA)
    assert [error.field for error in refused.value.errors] == [field]


async def test_every_event_has_a_name_that_the_database_gives(conn):
    """The list of names is that of the function which gives them."""
    source = await conn.fetchval(
        "select prosrc || coalesce(pg_get_functiondef(oid), '') from pg_proc where proname = 'webhook_event'"
    )
    for name in EVENTS:
        kind, _, what = name.partition(".")
        assert f"'{name}'" in source or (f"'{kind}." in source and f"'{what}'" in source), name


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://127.0.0.1/hook", "url: is not a public address"),
        ("https://[::1]/hook", "url: is not a public address"),
        ("https://10.1.2.3/hook", "url: is not a public address"),
        ("https://localhost/hook", "url: is not a public address"),
        ("http://shop.example/hook", "url: would be called without encryption"),
    ],
)
async def test_an_address_that_no_worker_may_call_is_refused(conn, url, reason):
    tenant = await given_tenant(conn)
    with pytest.raises(InvalidInput, match=reason):
        await add_webhook(conn, tenant, url, ["*"], actor=DANA)
    webhook, _ = await add_webhook(conn, tenant, URL, ["*"], actor=DANA)
    with pytest.raises(InvalidInput, match=reason):
        await edit_webhook(conn, webhook.id, {"url": url}, actor=DANA)


async def test_an_address_in_a_network_that_the_settings_allow_is_accepted(conn, monkeypatch):
    monkeypatch.setenv("ATLAS_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")
    tenant = await given_tenant(conn)
    for url in ("http://127.0.0.1:8081/hook", "http://localhost/hook", "http://intranet.example/hook"):
        webhook, _ = await add_webhook(conn, tenant, url, ["*"], actor=DANA)
        assert webhook.url == url
