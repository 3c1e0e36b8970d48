"""The values before and after an edit, in its event: readable, bounded, erasable, and without secrets."""

import orjson

from atlas.audit.changes import MAX_CHANGES, bare_url, changes_between
from atlas.audit.personal_data import erase
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.verify import verify
from atlas.engine.commands.definitions import add_definition, edit_definition
from atlas.engine.jobs.switches.gate import switch, switch_engine
from atlas.engine.jobs.switches.pauses import pause
from atlas.engine.tenants.tenants import add_tenant, edit_tenant
from atlas.engine.triggers.store import add_trigger, edit_trigger
from atlas.engine.webhooks.store import add_webhook, edit_webhook
from tests.support import DANA

MARK = "s3cret"


async def changes_of(conn, action):
    return orjson.loads(
        await conn.fetchval("select meta->'changes' from atlas.audit_log where action = $1 order by id desc", action)
    )


async def test_an_edit_holds_each_value_before_and_after(conn):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    await edit_tenant(conn, tenant, {"limits": {"in_flight": 5, "rate": "9/minute"}}, actor=DANA)
    await edit_tenant(conn, tenant, {"name": "Ltd", "limits": {"in_flight": 7, "rate": "9/minute"}}, actor=DANA)

    assert await changes_of(conn, "TENANT_EDITED") == {
        "limits.in_flight": {"before": 5, "after": 7},
        "name": {"before": "Acme", "after": "Ltd"},
    }


async def test_a_switch_or_a_pause_holds_what_it_was_before(conn):
    await switch(conn, online=True, actor=DANA)
    await switch(conn, online=False, actor=DANA, reason="disks")
    shown = {"online": {"before": True, "after": False}, "reason": {"before": None, "after": "disks"}}
    assert await changes_of(conn, "ATLAS_OFFLINE") == shown
    await switch_engine(conn, enabled=False, actor=DANA)
    assert await changes_of(conn, "ENGINE_DISABLED") == {"engine_enabled": {"before": True, "after": False}}
    for reason in ("slow", "broken"):
        await pause(conn, "type", "EMAIL_SEND", actor=DANA, reason=reason)
    assert await changes_of(conn, "PAUSED") == {"reason": {"before": "slow", "after": "broken"}}


async def test_secrets_are_in_no_event_and_what_people_wrote_can_be_erased(conn, installation):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    webhook, _ = await add_webhook(conn, tenant.id, f"https://example.org/a?t={MARK}", ["*"], actor=DANA)
    await edit_webhook(conn, webhook.id, {"url": f"https://example.org/b?t={MARK}"}, actor=DANA)
    assert (await changes_of(conn, "WEBHOOK_EDITED"))["url"] == {
        "before": "https://example.org/a",
        "after": "https://example.org/b",
    }
    await edit_webhook(conn, webhook.id, {"url": "https://example.org/b?t=other"}, actor=DANA)
    assert await changes_of(conn, "WEBHOOK_EDITED") == {"url": {"secret": True}}

    command = {"key": "echo", "argv": ["/bin/echo"], "env": {"KEPT": "x", "PASSWORD": MARK}}
    await add_definition(conn, command, actor=DANA)
    await edit_definition(conn, "echo", {"env": {"KEPT": "x", "PASSWORD": f"{MARK} 2"}}, actor=DANA)
    assert await changes_of(conn, "DEFINITION_EDITED") == {"env.PASSWORD": {"secret": True}}

    described = {"label": "mail", "trigger_type": "schedule", "cron_expr": "0 9 * * *", "job_type": "EMAIL_SEND"}
    mail = {"to": ["ann@example.org"], "subject": "Hello", "text": f"Dear {MARK}"}
    trigger = await add_trigger(conn, tenant.id, {**described, "payload_template": mail}, actor=DANA)
    mail = {**mail, "to": ["bob@example.org"]}
    await edit_trigger(conn, trigger.id, {"payload_template": mail, "cron_expr": "0 8 * * *"}, actor=DANA)
    changes = await changes_of(conn, "TRIGGER_EDITED")
    assert changes["cron_expr"] == {"before": "0 9 * * *", "after": "0 8 * * *"}
    assert [*changes["payload_template.to.0"]["before"]] == ["commitment"]
    values = "select field, value from atlas.audit_private where entity_id = $1 order by field"
    kept = [tuple(row) for row in await conn.fetch(values, str(trigger.id))]
    assert kept == [("after", "bob@example.org"), ("before", "ann@example.org")]

    bodies = b"".join(row["body"] for row in await conn.fetch("select body from atlas.audit_log"))
    assert not [word for word in (MARK, "@example.org") if word.encode() in bodies]
    assert await erase(conn, "ann@example.org", actor=DANA) == 1
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys)).findings == []


def test_long_and_many_values_are_recorded_by_their_digest():
    changes, _ = changes_between("tenant", {"name": "a"}, {"name": "b" * 5_000}, entity_id="1")
    assert (changes["name"]["before"], changes["name"]["after"]["bytes"]) == ("a", 5_002)
    many = {"to": [f"{number}@example.org" for number in range(MAX_CHANGES + 1)]}
    changes, kept = changes_between("trigger", {"payload_template": {}}, {"payload_template": many}, entity_id="1")
    assert (set(changes), [*changes["payload_template"]["after"]], kept) == (
        {"payload_template"}, ["sha256", "bytes"], []
    )  # fmt: skip


def test_a_url_is_recorded_without_user_password_query_and_fragment():
    for url, shown in (
        ("https://example.org:8443/a/b", "https://example.org:8443/a/b"),
        ("https://u:p@example.org/a?token=x#y", "https://example.org/a"),
        ("https://u:p@[2001:db8::1]:8443?x=1", "https://[2001:db8::1]:8443"),
        ("https://a@b@example.org/", "https://example.org/"),
        ("https://u:p@[x/", ""),
        ("the other office", "the other office"),
        (None, None),
    ):
        assert bare_url(url) == shown
