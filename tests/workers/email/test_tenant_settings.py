"""A tenant may differ from the installation: in its providers, its sender, its agents."""

import orjson
import pytest

from atlas.engine.tenants.tenants import add_tenant
from tests.support import DANA
from tests.workers.email.given import MAIL
from tests.workers.email.server import Play


@pytest.fixture
async def acme(post):
    async with post.pool.acquire() as conn:
        return await add_tenant(conn, slug="acme", name="Acme", actor=DANA)


async def decide(post, tenant, **email) -> None:
    await post.pool.execute(
        "update atlas.tenants set limits = $2::text::jsonb where id = $1",
        tenant.id,
        orjson.dumps({"in_flight": 10, "email": email}).decode(),
    )
    post.use()  # a new mailer has read nothing yet


async def test_a_tenant_has_its_own_providers_in_its_own_order(post, server, acme):
    await decide(post, acme, providers=["resend", "microsoft"])
    theirs, other = await post.enqueue(tenant_id=acme.id), await post.enqueue()

    await post.drain()

    assert (await post.job(theirs)).output["provider"] == "resend"
    assert (await post.job(other)).output["provider"] == "microsoft"


async def test_a_tenants_providers_fail_over_too(post, server, acme):
    await decide(post, acme, providers=["resend", "outbox"])
    server.play("resend", Play(status=403, body={"name": "invalid_api_key", "message": "No."}))

    assert (await post.run(await post.enqueue(tenant_id=acme.id))).output["provider"] == "outbox"


@pytest.mark.parametrize("provider", ["microsoft", "resend", "outbox"])
async def test_a_tenant_has_its_own_sender(post, server, acme, provider):
    await decide(post, acme, **{"providers": [provider], "from": "Acme <mail@acme.example>"})

    job = await post.run(await post.enqueue(tenant_id=acme.id))

    assert job.output["sender"] == "Acme <mail@acme.example>"
    if provider == "microsoft":
        [draft] = server.drafts.values()
        assert draft["mailbox"] == "mail@acme.example"
        assert draft["from"] == {"emailAddress": {"address": "mail@acme.example", "name": "Acme"}}


async def test_a_tenant_may_be_held_to_a_list_of_agents(post, server, acme):
    await decide(post, acme, agents=["sales"])
    post.use(agent_emails={"SALES": "sales@contoso.example", "BOSS": "boss@contoso.example"})
    allowed = await post.enqueue({**MAIL, "fromAgent": "Sales"}, tenant_id=acme.id)
    refused = await post.enqueue({**MAIL, "fromAgent": "boss"}, tenant_id=acme.id)

    await post.drain()

    assert (await post.job(allowed)).output["sender"] == "sales@contoso.example"
    assert (await post.job(refused)).status == "failed"
    assert "may not send as the agent boss" in (await post.job(refused)).error["message"]


@pytest.mark.parametrize(
    ("email", "named"),
    [
        ({"providers": ["sendmail"]}, "providers"),
        ({"providers": []}, "providers"),
        ({"per_minute": 0}, "per_minute"),
        ({"form": "x"}, "form"),
        ({"from": "nobody"}, "from: is not an address"),
    ],
)
async def test_wrong_settings_of_a_tenant_are_named(post, server, acme, email, named):
    await decide(post, acme, **email)

    job = await post.run(await post.enqueue(tenant_id=acme.id))

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert named in job.error["message"]
    assert "acme" in job.error["message"]


async def test_a_change_reaches_workers_within_seconds(post, server, acme):
    await post.run(await post.enqueue(tenant_id=acme.id))
    await post.pool.execute(
        """update atlas.tenants set limits = '{"email": {"providers": ["resend"]}}' where id = $1""", acme.id
    )
    routes = post._mailers[-1]._routes
    routes._known = {key: (0.0, route) for key, (_, route) in routes._known.items()}

    assert (await post.run(await post.enqueue(tenant_id=acme.id))).output["provider"] == "resend"
