"""What the login of another application may enqueue: the job types of the tenants that were granted to it, as itself."""

from contextlib import asynccontextmanager

import asyncpg
import orjson
import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.access.grants import grant_enqueue, list_grants, revoke_enqueue
from atlas.engine.admission import admit
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.removal import begin_removal, continue_removal
from atlas.engine.tenants.tenants import find_tenant
from atlas.errors import AtlasError, InvalidInput, NotFound, Refused
from tests.integrations.ways import WAYS, call
from tests.pgbouncer import without_pooler
from tests.support import DANA, given_tenant

pytestmark = [without_pooler("it maps every login to one of its own")]


@pytest.fixture
async def login(shop):
    """A connection of the application."""
    conn = await asyncpg.connect(shop.url)
    yield conn
    await conn.close()


async def test_a_login_enqueues_only_what_it_was_granted(shop, login):
    await given_tenant(shop.owner, "globex")
    for tenant, type in (
        *(("globex", "invoice.send"), ("system", "invoice.send"), ("unknown", "invoice.send")),
        *(("acme", "EMAIL_SEND"), ("acme", "report.build"), ("acme", "billing.archived"), ("acme", "ENGINE_RUN")),
    ):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await login.execute("select atlas.enqueue($1, $2, allow_unknown => true)", tenant, type)
        # The same words whether the tenant and the type exist or not.
        assert refused.value.sqlstate == "AT403"
        assert refused.value.message == f"the login {shop.login} may not enqueue {type} for the tenant {tenant}"
        # No hint names a grant that would be refused.
        hint = f"Run `atlas grant enqueue {shop.login} --tenant {tenant} --type {type}`."
        hints = {"system": "The tenant system is Atlas's own", "ENGINE_RUN": "No login of another application"}
        assert refused.value.hint.startswith(hints.get(tenant) or hints.get(type) or hint)
        may = "For this tenant it may enqueue billing.archive, invoice.*."
        assert refused.value.detail == (may if tenant == "acme" else "")
    with pytest.raises(Refused, match=f"The login {shop.login} may not enqueue x for the tenant acme. For this tenant"):
        await call(WAYS["psycopg"], shop.url, True, "x", {}, tenant="acme")

    await login.execute("select atlas.enqueue($1, 'invoice.send', '{\"invoice_id\": 7}')", str(shop.acme))
    [job] = await shop.jobs()
    assert (job["tenant_id"], job["job_type"]) == (shop.acme, "invoice.send")


async def test_the_actor_is_the_login_and_the_source_is_fixed(shop, login):
    for forged in ("operator", "cli:root", "scheduler"):
        await login.execute("select atlas.enqueue('acme', 'invoice.send', '{\"invoice_id\": 7}', actor => $1)", forged)
    for job, forged in zip(await shop.jobs(), ("operator", "cli:root", "scheduler"), strict=True):
        me = f"db:{shop.login}"
        assert (job["created_by"], job["actor_id"], job["source"]) == (me, me, "manual")
        assert orjson.loads(job["meta"])["on_behalf_of"] == forged
    for argument, value in (("source", "system"), ("source", "schedule"), ("source_ref", "a-trigger")):
        with pytest.raises(asyncpg.PostgresError, match=f"{argument}: is (always|not)"):
            await login.execute(
                f"select atlas.enqueue('acme', 'invoice.send', '{{\"invoice_id\": 7}}', {argument} => $1)", value
            )
    # A login of Atlas's own names the actor and the source.
    await shop.owner.execute(
        "select atlas.enqueue('acme', 'invoice.send', '{\"invoice_id\": 7}', actor => 'ann', source => 'event')"
    )
    assert [(job["created_by"], job["source"]) for job in await shop.jobs()][3:] == [("ann", "event")]


async def test_sql_refuses_the_job_types_that_the_api_refuses(shop, login):
    acme = [await find_tenant(shop.owner, "acme")]
    await grant_enqueue(shop.owner, shop.login, tenants=acme, job_types=["*"], actor=DANA)
    types = [
        "a b",
        "größe",
        "a\nb",
        "a\x1b[31mb",
        "a\u200bb",
        "a\u202eb",
        "a\u00a0b",
        "a\u2028b",
        "\ufeffa",
        "",
        "x" * 201,
    ]
    verdicts = {}
    for type in types:
        try:
            job = await admit(shop.owner, NewJob(type, tenant_id=shop.acme, allow_unknown=True))
            await enqueue(shop.owner, job, actor=DANA)
            is_refused = False
        except InvalidInput:
            is_refused = True
        try:
            await login.execute("select atlas.enqueue('acme', $1, allow_unknown => true)", type)
            verdicts[type] = (is_refused, False)
        except asyncpg.PostgresError as error:
            verdicts[type] = (is_refused, error.sqlstate == "AT422")
    assert verdicts == {type: (False, False) if type in types[:2] else (True, True) for type in types}


async def test_a_grant_of_the_version_before_is_refused_with_the_command(shop, login):
    await shop.owner.execute("delete from atlas.enqueue_grants")

    with pytest.raises(asyncpg.PostgresError) as refused:
        await login.execute("select atlas.enqueue('acme', 'invoice.send')")
    assert refused.value.hint == f"Run `atlas grant enqueue {shop.login} --tenant acme --type invoice.send`."


async def test_revoked_grants_are_gone_with_the_right_to_call(shop, login):
    owner = shop.owner
    assert len(await list_grants(owner, login=shop.login)) == 2
    assert await list_grants(owner, login="nobody") == []

    [first] = await revoke_enqueue(owner, shop.login, tenant_id=shop.acme, job_type="billing.archive", actor=DANA)
    await login.execute("select atlas.enqueue('acme', 'invoice.send', '{\"invoice_id\": 7}')")
    [second] = await revoke_enqueue(owner, shop.login, actor=DANA)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await login.execute("select atlas.enqueue('acme', 'invoice.send')")

    assert (first.job_type, second.job_type) == ("billing.archive", "invoice.*")
    events = await owner.fetch(
        "select action, tenant_id, meta->>'login' as login, meta->>'job_type' as type from atlas.audit_log"
        " where entity_type = 'enqueue_grant' order by id"
    )
    assert [row["action"] for row in events] == [
        "ENQUEUE_GRANTED",
        "ENQUEUE_GRANTED",
        "ENQUEUE_REVOKED",
        "ENQUEUE_REVOKED",
    ]
    assert {(row["tenant_id"], row["login"]) for row in events} == {(shop.acme, shop.login)}
    assert [row["type"] for row in events] == ["invoice.*", "billing.archive", "billing.archive", "invoice.*"]


async def test_grants_are_compared_with_the_audit_log_and_go_with_their_tenant(shop):
    owner = shop.owner
    assert await cross_check(owner) == []
    tampering = owner.transaction()
    await tampering.start()
    await owner.execute("update atlas.enqueue_grants set job_type = '*' where job_type = 'invoice.*'")
    await owner.execute(
        "insert into atlas.enqueue_grants (login, tenant_id, job_type, created_by) values ('eve', $1, '*', 'eve')",
        shop.acme,
    )
    messages = [finding.message for finding in await cross_check(owner)]
    await tampering.rollback()
    assert len(messages) == 2
    assert any("is not as its last event left it" in message for message in messages)
    assert any("has no event" in message for message in messages)

    tenant = await find_tenant(owner, shop.acme)
    await begin_removal(owner, tenant, actor=DANA)
    with pytest.raises(AtlasError):
        await call(WAYS["asyncpg"], shop.url, True, "invoice.send", {"invoice_id": 7}, tenant="acme")

    @asynccontextmanager
    async def transaction():
        async with owner.transaction():
            yield owner

    async for _ in continue_removal(transaction, shop.acme, actor=DANA):
        pass
    assert await list_grants(owner) == []
    assert await cross_check(owner) == []


@pytest.mark.parametrize(
    ("tenants", "types", "reason"),
    [
        ([], ["invoice.send"], "tenant: is missing"),
        (["acme"], [], "type: is missing"),
        (["system"], ["invoice.send"], "tenant: system is Atlas's own"),
        (["acme"], ["ENGINE_RUN"], "type: ENGINE_RUN is not made by atlas.enqueue"),
        (["acme"], ["a*b"], "type: 'a\\*b' is not a job type"),
        (["acme"], [""], "type: '' is not a job type"),
    ],
)
async def test_a_grant_names_tenants_and_types(shop, tenants, types, reason):
    found = [await find_tenant(shop.owner, tenant) for tenant in tenants]
    with pytest.raises(InvalidInput, match=reason):
        await grant_enqueue(shop.owner, shop.login, tenants=found, job_types=types, actor=DANA)
    with pytest.raises(NotFound, match="no login nobody"):
        acme = [await find_tenant(shop.owner, "acme")]
        await grant_enqueue(shop.owner, "nobody", tenants=acme, job_types=["x"], actor=DANA)
