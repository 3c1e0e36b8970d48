"""Row-level security: without any filter of the application, a tenant's transaction sees only its own rows."""

import re

import asyncpg
import pytest

from atlas import AtlasPrisma
from atlas.api.db import Database
from atlas.db.prisma import prisma_on
from atlas.engine.policy.rules import add_rule
from atlas.errors import NotFound
from atlas.generated import Json
from atlas.generated.errors import PrismaError
from atlas.prisma_client import packaged_schema
from tests.api.given import furnish_installation, furnish_tenant
from tests.support import DANA, some

TABLES = """
select c.relname as name, c.relkind::text as kind,
  exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped) as has_tenant,
  c.relrowsecurity and c.relforcerowsecurity as is_walled, pg_get_userbyid(c.relowner) as owner
from pg_class c
where c.relnamespace = 'atlas'::regnamespace and c.relkind in ('r', 'v', 'p')"""
# Columns of tenants' tables that hold the id of another row. Definitions belong to no tenant.
REFERENCES = """
select c.relname as relation, a.attname as reference
from pg_attribute a
join pg_class c on c.oid = a.attrelid
where c.relnamespace = 'atlas'::regnamespace and c.relkind = 'r' and c.relrowsecurity and a.attnum > 0
  and a.atttypid = 'uuid'::regtype and a.attname not in ('definition_id', 'event_id')"""
# Tables of the installation: they hold nothing of a tenant, or no role of tenants may read them at all.
OF_NOBODY = {
    "_prisma_migrations",
    "audit_checkpoint",
    "audit_epoch",
    "audit_pruned",
    "audit_seal",
    "counted_jobs",
    "history_bounds",
    "history_changes",
    "job_definitions",
    "job_totals",
    "job_types",
    "job_workers",
    "mail_pace",
    "running_programs",
    "share_clock",
    "scheduler_leader",
    "system_state",
    "usage_costs",
    "worker_keys",
}


@pytest.fixture
async def things(pool, world):
    await furnish_installation(pool)
    return {tenant.slug: await furnish_tenant(pool, tenant) for tenant in (world.acme, world.other)}


async def as_tenant(conn, tenant):
    await conn.execute(f"set local role atlas_tenant; set local atlas.tenant = '{tenant.id}'")


async def test_every_table_of_a_tenant_has_row_level_security_and_belongs_to_the_owner(owner):
    tables = [row for row in await owner.fetch(TABLES) if row["kind"] != "v"]
    without = {row["name"] for row in tables if not row["is_walled"]}

    assert without == OF_NOBODY
    assert {row["name"] for row in tables if row["has_tenant"]}.isdisjoint(without)
    assert {row["owner"] for row in tables if row["name"] != "_prisma_migrations"} == {"atlas_owner"}


async def test_no_table_and_no_view_shows_a_row_of_another_tenant(conn, owner, world, things):
    foreign = seen = 0
    relations = [row for row in await owner.fetch(TABLES) if row["name"] not in OF_NOBODY]
    for row in relations:
        async with conn.transaction():
            await as_tenant(conn, world.acme)
            try:
                async with conn.transaction():
                    found = await conn.fetch(f"select t::text as shown from atlas.{row['name']} t")
            except asyncpg.InsufficientPrivilegeError:
                continue  # nothing at all is shown
        seen += len(found)
        foreign += sum(str(world.other.id) in one["shown"] or "other" in one["shown"] for one in found)
    print(f"relations {len(relations)}, rows seen {seen}, foreign rows {foreign}")
    assert seen > 20
    assert foreign == 0


async def test_nothing_of_another_tenant_can_be_changed_or_created(conn, owner, world, things):
    before = await fingerprint(owner, world.other)
    other = world.other.id
    attempts = [
        f"update atlas.jobs set priority = 9 where tenant_id = '{other}'",
        "update atlas.jobs set priority = 9",
        f"delete from atlas.jobs where tenant_id = '{other}'",
        "delete from atlas.jobs",
        f"insert into atlas.jobs (tenant_id, job_type) values ('{other}', 'x.work')",
        f"update atlas.jobs set tenant_id = '{other}'",
        f"insert into atlas.events (tenant_id, name, created_by) values ('{other}', 'x', 'mallory')",
        f"update atlas.api_tokens set role = 'operator', tenant_id = null where tenant_id = '{other}'",
        "update atlas.api_tokens set tenant_id = null, role = 'operator'",
        "insert into atlas.policy_rules (label, effect, except_workflows, created_by) values ('mine', 'allow', '{}', 'mallory')",
        "update atlas.workflows set is_enabled = false where tenant_id is null",
        "delete from atlas.policy_rules",
        "update atlas.approvals set status = 'approved', decided_at = now()",
        "insert into atlas.sessions (token_id, hash, expires_at) select id, hash, now() from atlas.api_tokens",
        "delete from atlas.audit_log",
        "update atlas.tenants set limits = '{}'",
        f"select atlas.cancel_jobs(array['{things['other']['job_id']}']::uuid[], null, 'user', 'mallory', '{{}}')",
        f"select atlas.retry_jobs(array['{things['other']['job_id']}']::uuid[], null, 'user', 'mallory', '{{}}')",
        "select atlas.switch_gate(false, null, null, 'user', 'mallory', '{}')",
        "select * from atlas.enqueue('other', 'x.work')",
        f"select atlas.publish_event(gen_random_uuid(), '{other}', 'x', '{{}}', null, 'mallory', null)",
        f"select atlas.move_server_instance('{things['other']['instance_id']}', '{things['acme']['host_id']}')",
        f"select atlas.move_server_instance('{things['other']['instance_id']}', '{things['other']['host_id']}')",
        f"select atlas.move_server_instance('{things['acme']['instance_id']}', '{things['other']['host_id']}')",
        f"delete from atlas.server_instances where id = '{things['other']['instance_id']}'",
        f"select * from atlas.claim_leased('remote:x', null, '{other}', array['x.work'], 10, 30)",
    ]
    refused = 0
    for attempt in attempts:
        transaction = conn.transaction()
        await transaction.start()
        await as_tenant(conn, world.acme)
        try:
            await conn.execute(attempt)
            # What went through touched one's own rows alone; it is kept, so that the comparison would see more.
            await transaction.commit()
        except asyncpg.PostgresError:
            refused += 1
            await transaction.rollback()
    print(f"attempts {len(attempts)}, refused outright {refused}")
    assert await fingerprint(owner, world.other) == before


async def test_no_row_of_ones_own_reaches_into_another_tenants(conn, world, things):
    rows = {
        "jobs (tenant_id, job_type, host_id) values ($1, 'x.work', $2)": "host_id",
        "jobs (tenant_id, job_type, parent_run_id) values ($1, 'x.work', $2)": "run_id",
        "server_instances (tenant_id, host_id, name) values ($1, $2, 'web')": "host_id",
        "trigger_fires (tenant_id, trigger_id, fired_at, created_by) values ($1, $2, now(), 'mallory')": "trigger_id",
        "events (tenant_id, name, created_by, run_id) values ($1, 'x', 'mallory', $2)": "run_id",
        "events (tenant_id, name, created_by, run_id) values ($1, 'y', 'mallory', $2)": "intent_id",
        "intents (tenant_id, workflow, input, input_hash, requested_by, forked_from, forked_step)"
        " values ($1, 'greet', '{}', sha256(''), 'mallory', $2, 'x')": "run_id",
        "workflow_steps (tenant_id, run_id, branch, position, name, kind, status)"
        " values ($1, $2, '', 9, 'x', 'step', 'succeeded')": "run_id",
        "job_secrets (tenant_id, job_id, field, key_id, nonce, ciphertext)"
        " values ($1, $2, 'x', 'k', repeat('x', 12)::bytea, '')": "job_id",
    }
    for row, kind in rows.items():
        insert = f"insert into atlas.{row}"
        assert await _may(conn, world.acme, insert, world.acme.id, things["acme"][kind]), row
        assert not await _may(conn, world.acme, insert, world.acme.id, things["other"][kind]), row


async def test_no_row_of_ones_own_is_changed_to_reach_into_another_tenants(conn, owner, world, things):
    for name in await owner.fetch(REFERENCES):
        column = f"atlas.{name['relation']} set {name['reference']}"
        assert not await _may(conn, world.acme, f"update {column} = gen_random_uuid()"), column
    for changed in ("jobs set priority = 7", "intents set reason = 'x'", "hosts set is_active = false"):
        assert await _may(conn, world.acme, f"update atlas.{changed}"), changed


async def test_only_an_event_of_ones_own_ends_a_wait(conn, owner, world, things):
    await owner.execute(
        "insert into atlas.workflow_steps (tenant_id, run_id, branch, position, name, kind, status)"
        " values ($1, $2, '', 9, 'x', 'event', 'waiting')",
        world.acme.id,
        things["acme"]["run_id"],
    )
    events = dict(await owner.fetch("select tenant_id, id from atlas.events"))
    update = "update atlas.workflow_steps set event_id = $1 where position = 9"

    assert await _may(conn, world.acme, update, events[world.acme.id])
    assert not await _may(conn, world.acme, update, events[world.other.id])


async def _may(conn, tenant, attempt, *values):
    transaction = conn.transaction()
    await transaction.start()
    await as_tenant(conn, tenant)
    try:
        await conn.execute(attempt, *values)
    except asyncpg.InsufficientPrivilegeError:
        return False
    finally:
        await transaction.rollback()
    return True


async def test_a_tenant_cannot_create_an_operator(conn, world):
    await conn.execute("begin")
    await as_tenant(conn, world.acme)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await conn.execute(
            "insert into atlas.api_tokens (prefix, hash, subject, role, tenant_id)"
            " values ('atl_x', sha256('x'), 'mallory', 'operator', $1)",
            world.acme.id,
        )
    await conn.execute("rollback")
    await conn.execute("begin")
    await as_tenant(conn, world.acme)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
        await conn.execute("update atlas.api_tokens set role = 'operator'")
    await conn.execute("rollback")


async def test_without_a_tenant_nothing_exists(conn, world, things):
    async with conn.transaction():
        await conn.execute("set local role atlas_tenant")
        for table in ("jobs", "tenants", "api_tokens", "audit_log", "intents", "workflow_steps"):
            assert await conn.fetchval(f"select count(*) from atlas.{table}") == 0


async def test_a_connection_does_not_keep_the_tenant_of_its_last_borrower(pool, world, things):
    api = world.app.state.api
    async with api.db.transaction(world.acme.id) as conn:
        assert await conn.fetchval("select count(distinct tenant_id) from atlas.jobs") == 1
    async with pool.acquire() as conn:
        assert await conn.fetchval("select count(distinct tenant_id) from atlas.jobs") == 2
        assert await conn.fetchval("select current_user") == "atlas_engine"
        assert await conn.fetchval("select nullif(current_setting('atlas.tenant', true), '')") is None


async def test_the_typed_client_reads_no_row_of_another_tenant(world, things):
    foreign, seen = [], 0
    for name, model in packaged_schema().models.items():
        include = {field.name: True for field in model.fields.values() if field.relation}
        async with world.app.state.api.db.transaction(world.acme.id) as conn:
            try:
                rows = await getattr(prisma_on(conn), name.lower()).find_many(include=include)
            except asyncpg.InsufficientPrivilegeError:
                continue  # nothing at all is shown
        seen += len(rows)
        foreign += [row for row in rows if str(world.other.id) in str(row) or re.search(r"\bother\b", str(row))]
    assert seen > 20
    assert foreign == []


async def test_the_typed_client_finds_nothing_by_the_ids_of_another_tenant(world, things):
    theirs = {name: str(value) for name, value in things["other"].items()}
    async with world.app.state.api.db.transaction(world.acme.id) as conn:
        db = prisma_on(conn)
        assert await db.tenant.find_unique(where={"slug": "other"}) is None
        assert await db.job.find_unique(where={"id": theirs["job_id"]}) is None
        assert await db.job.count(where={"tenantId": str(world.other.id)}) == 0
        assert await db.host.find_first(where={"instances": {"some": {"id": theirs["instance_id"]}}}) is None
        assert await db.intent.find_many(cursor={"id": theirs["intent_id"]}) == []
        assert await db.tenant.find_unique(where={"id": str(world.acme.id)}) is not None


# What a tenant might try by the typed client: `mine` and `theirs` are ids of rows, `tenant` is the other's id.
TYPED_ATTEMPTS = {
    "update": lambda db, mine, theirs, tenant: db.host.update({"name": "x"}, {"id": theirs["host_id"]}),
    "update_many": lambda db, mine, theirs, tenant: db.host.update_many({"isActive": False}, {"tenantId": tenant}),
    "update_all": lambda db, mine, theirs, tenant: db.jobtrigger.update_many({"label": "x"}, {}),
    "give_away": lambda db, mine, theirs, tenant: db.host.update_many({"tenantId": tenant}, {}),
    "delete": lambda db, mine, theirs, tenant: db.serverinstance.delete({"id": theirs["instance_id"]}),
    "delete_all": lambda db, mine, theirs, tenant: db.serverinstance.delete_many(),
    "create": lambda db, mine, theirs, tenant: db.event.create({"tenantId": tenant, "name": "x", "createdBy": "m"}),
    "create_many": lambda db, mine, theirs, tenant: db.event.create_many(
        [{"tenantId": tenant, "name": "x", "createdBy": "m", "context": Json({})}]
    ),
    "upsert": lambda db, mine, theirs, tenant: db.host.upsert(
        {"id": theirs["host_id"]}, {"create": {"name": "x", "tenantId": tenant}, "update": {"name": "x"}}
    ),
    "nested_create": lambda db, mine, theirs, tenant: db.host.create(
        {"name": "x", "tenant": {"connect": {"id": tenant}}}
    ),
    "nested_connect": lambda db, mine, theirs, tenant: db.host.update(
        {"instances": {"connect": [{"id": theirs["instance_id"]}]}}, {"id": mine["host_id"]}
    ),
    "nested_reference": lambda db, mine, theirs, tenant: db.serverinstance.create(
        {"name": "x", "tenantId": mine["tenant_id"], "hostId": theirs["host_id"]}
    ),
    "nested_move": lambda db, mine, theirs, tenant: db.serverinstance.update(
        {"host": {"connect": {"id": theirs["host_id"]}}}, {"id": mine["instance_id"]}
    ),
    "own_limits": lambda db, mine, theirs, tenant: db.tenant.update({"limits": Json({})}, {"id": mine["tenant_id"]}),
    "raw": lambda db, mine, theirs, tenant: db.execute_raw("update atlas.hosts set name = 'x' || name"),
}


@pytest.mark.parametrize("attempt", some(sorted(TYPED_ATTEMPTS), every=3))
async def test_the_typed_client_changes_nothing_of_another_tenant(owner, world, things, attempt):
    before = await fingerprint(owner, world.other)
    ids = {slug: {name: str(value) for name, value in ids.items()} for slug, ids in things.items()}
    ids["acme"]["tenant_id"] = str(world.acme.id)
    try:
        async with world.app.state.api.db.transaction(world.acme.id) as conn:
            await TYPED_ATTEMPTS[attempt](prisma_on(conn), ids["acme"], ids["other"], str(world.other.id))
    except (asyncpg.PostgresError, PrismaError):
        pass  # refused outright; what went through is kept, so that the comparison would see more
    assert await fingerprint(owner, world.other) == before


async def test_an_application_creates_and_changes_jobs_of_its_tenant_alone(world, things):
    theirs = str(things["other"]["job_id"])
    async with world.app.state.api.db.transaction(world.acme.id) as conn:
        db = AtlasPrisma.on(conn)
        made = await db.job.create({"tenantId": str(world.acme.id), "jobType": "x.work"})
        with pytest.raises(NotFound, match="There is no tenant"):
            await db.job.create({"tenantId": str(world.other.id), "jobType": "x.work"})
        assert await db.job.update({"priority": 9}, {"id": theirs}) is None
        await db.job.update_many({"priority": 9}, {})
        assert (await db.job.find_unique_or_raise({"id": made.id})).priority == 9
    async with world.app.state.api.db.transaction(None) as conn:
        rows = await AtlasPrisma.on(conn).job.find_many(where={"tenantId": str(world.other.id)})
        assert {row.priority for row in rows} == {0}


async def fingerprint(owner, tenant):
    """Every row of a tenant, and the counts of shared rows."""
    found = {}
    for row in await owner.fetch(TABLES):
        if row["kind"] == "v" or row["name"] == "audit_log":
            continue
        rows = await owner.fetch(f"select t::text as shown from atlas.{row['name']} t")
        theirs = sorted(one["shown"] for one in rows if str(tenant.id) in one["shown"])
        shared = row["name"] in OF_NOBODY or row["name"] == "sessions"
        found[row["name"]] = (theirs, len(rows) if shared else None)
    return found


async def test_a_tenant_cannot_remove_the_rules_it_is_under(pool, world, owner, conn):
    await add_rule(conn, label="limit", effect="block", tenant_id=world.acme.id, actor=DANA)
    database = Database(pool)

    for change in ("delete from atlas.policy_rules", "update atlas.policy_rules set is_enabled = false"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with database.transaction(world.acme.id) as tenant:
                await tenant.execute(change)
    assert await owner.fetchval("select is_enabled from atlas.policy_rules where label = 'limit'")
