"""A tenant has so many things and not one more, however many requests add them at the same time."""

import asyncio
import re
from dataclasses import replace

import pytest

from atlas.engine.access import quotas
from atlas.engine.access.quotas import QUOTAS, QuotaReached
from atlas.engine.access.sessions import end_session, open_session
from atlas.engine.access.tokens import add_token, revoke_token
from atlas.engine.commands.definitions import add_definition
from atlas.engine.hosts.hosts import add_host
from atlas.engine.hosts.server_instances import add_server_instance
from atlas.engine.policy.rules import add_rule, remove_rule
from atlas.engine.tenants.tenants import add_tenant, edit_tenant
from atlas.engine.triggers.store import add_trigger, remove_trigger
from atlas.engine.webhooks.inbound import add_hook
from atlas.engine.webhooks.store import add_webhook
from atlas.engine.workflows.declared.store import save_workflow
from atlas.errors import InvalidInput
from tests.support import DANA, ROOT

FEW = 3


@pytest.fixture
async def acme(conn, monkeypatch):
    """A tenant, in an installation where there may be three of everything."""
    monkeypatch.setattr(quotas, "QUOTAS", {name: replace(one, most=FEW) for name, one in QUOTAS.items()})
    return await add_tenant(conn, slug="acme", name="Acme", actor=DANA)


async def add_tokens(conn, acme, n):
    return (await add_token(conn, subject=f"t{n}", role="enqueuer", tenant=acme, actor=DANA))[0]


async def add_triggers(conn, acme, n):
    described = {"label": f"t{n}", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"}
    return await add_trigger(conn, acme.id, described, actor=DANA)


async def add_hosts(conn, acme, n):
    return await add_host(conn, tenant_id=acme.id, name=f"h{n}", actor=DANA)


async def add_workflows(conn, acme, n):
    document = {"key": f"w{n}", "steps": [{"id": "a", "sleep": 0}]}
    return await save_workflow(conn, document, actor=DANA, tenant_id=acme.id)


async def add_versions(conn, acme, n):
    return await save_workflow(
        conn, {"key": "w", "steps": [{"id": f"s{n}", "sleep": 0}]}, actor=DANA, tenant_id=acme.id
    )


async def add_rules(conn, acme, n):
    return await add_rule(conn, label=f"r{n}", effect="allow", actor=DANA, tenant_id=acme.id)


async def add_definitions(conn, acme, n):
    return await add_definition(conn, {"key": f"d{n}", "argv": ["/bin/true"]}, actor=DANA)


async def add_webhooks(conn, acme, n):
    return await add_webhook(conn, acme.id, f"https://shop{n}.example/", ["*"], actor=DANA)


async def add_hooks(conn, acme, n):
    return await add_hook(conn, acme.id, f"shop.paid{n}", actor=DANA)


ADDERS = {
    "tokens": add_tokens,
    "triggers": add_triggers,
    "hosts": add_hosts,
    "workflows": add_workflows,
    "versions_of_a_workflow": add_versions,
    "policies": add_rules,
    "definitions": add_definitions,
    "webhooks": add_webhooks,
    "inbound_hooks": add_hooks,
}


@pytest.mark.parametrize("thing", ADDERS)
async def test_a_tenant_has_its_quota_and_not_one_more(conn, acme, thing):
    for n in range(FEW):
        await ADDERS[thing](conn, acme, n)
    with pytest.raises(QuotaReached, match=f"The limit of {FEW} {thing.replace('_', ' ')} is reached"):
        await ADDERS[thing](conn, acme, FEW)


async def test_a_host_has_its_servers_and_a_token_its_sessions_and_not_one_more(conn, acme):
    hosts = [await add_hosts(conn, acme, n) for n in range(2)]
    token = await add_tokens(conn, acme, 1)
    for n in range(FEW):
        await add_server_instance(conn, hosts[0], name=f"i{n}", actor=DANA)
        session, _ = await open_session(conn, token, actor=DANA)
    with pytest.raises(QuotaReached, match="Use another host"):
        await add_server_instance(conn, hosts[0], name="one more", actor=DANA)
    with pytest.raises(QuotaReached, match="Sign out elsewhere"):
        await open_session(conn, token, actor=DANA)

    await add_server_instance(conn, hosts[1], name="of another", actor=DANA)
    await end_session(conn, session, actor=DANA)
    await open_session(conn, token, actor=DANA)


async def test_what_is_removed_makes_room(conn, acme):
    tokens = [await add_tokens(conn, acme, n) for n in range(FEW)]
    triggers = [await add_triggers(conn, acme, n) for n in range(FEW)]
    for n in range(FEW):
        await add_rules(conn, acme, n)
    await revoke_token(conn, tokens[0].prefix, actor=DANA)
    await remove_trigger(conn, triggers[0].id, actor=DANA)
    await remove_rule(conn, "r0", actor=DANA, tenant_id=acme.id)

    for thing in ("tokens", "triggers", "policies"):
        await ADDERS[thing](conn, acme, FEW)
        with pytest.raises(QuotaReached):
            await ADDERS[thing](conn, acme, FEW + 1)


async def test_many_at_the_same_time_do_not_exceed_it(pool, acme):
    async def add(n):
        async with pool.acquire() as conn:
            await add_tokens(conn, acme, n)

    ended = await asyncio.gather(*(add(n) for n in range(4 * FEW)), return_exceptions=True)

    assert sorted(type(one).__name__ for one in ended) == ["NoneType"] * FEW + ["QuotaReached"] * 3 * FEW
    assert await pool.fetchval("select count(*) from atlas.api_tokens where tenant_id = $1", acme.id) == FEW


async def test_an_operator_gives_a_tenant_another_quota(conn, acme):
    other = await add_tenant(conn, slug="other", name="Other", actor=DANA)
    acme = await edit_tenant(conn, acme, {"limits": {"quotas": {"tokens": FEW + 1}}}, actor=DANA)
    for n in range(FEW + 1):
        await add_tokens(conn, acme, n)
    with pytest.raises(QuotaReached, match=r"raise the tenant's limit quotas\.tokens"):
        await add_tokens(conn, acme, FEW + 1)
    for n in range(FEW):
        await add_tokens(conn, other, n)
    with pytest.raises(QuotaReached):
        await add_tokens(conn, other, FEW)


@pytest.mark.parametrize("wrong", [{"token": 5}, {"tokens": 0}, {"tokens": "5"}, {"tokens": True}, 7])
async def test_a_quota_that_means_nothing_is_refused(conn, acme, wrong):
    with pytest.raises(InvalidInput, match="limits.quotas"):
        await edit_tenant(conn, acme, {"limits": {"quotas": wrong}}, actor=DANA)


def test_the_page_about_the_api_names_every_quota():
    section = (ROOT / "docs" / "api.md").read_text().partition("### Stay within quotas\n")[2].partition("\n## ")[0]
    written = {name: int(most.replace(",", "")) for name, most in re.findall(r"\| `(\w+)` \| ([\d,]+) \|", section)}

    assert written == {name: one.most for name, one in QUOTAS.items()}
