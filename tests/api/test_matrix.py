"""Every address, by every role, for its own tenant, another one and none: access is exactly what the table says."""

import re
from uuid import uuid4

import pytest

from atlas.api.caches.tenant_cache import TenantCache
from tests.api.given import furnish_installation, furnish_tenant
from tests.api.table import TABLE

# What an address takes, so that a caller who may use it gets past the reading of it.
BODIES = {
    "POST /jobs": {"job_type": "x.work"},
    "POST /jobs/bulk": {"action": "retry", "filter": {"status": ["canceled"]}},
    "POST /jobs/bulk/preview": {"action": "retry", "filter": {"status": ["canceled"]}},
    "POST /groups": {"jobs": [{"job_type": "x.work"}]},
    "POST /jobs/tick": {"limit": 1},
    "POST /jobs/triggers": {"label": "n", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"},
    "POST /jobs/triggers/preview": {"cron_expr": "0 7 * * *"},
    "PATCH /jobs/triggers/{trigger_id}": {"cron_expr": "0 8 * * *"},
    "POST /jobs/triggers/{trigger_id}/fire": {},
    "POST /admin/jobs/definitions": {"key": "true.it", "argv": ["/bin/true"]},
    "PATCH /admin/jobs/definitions/{key}": {"description": "d"},
    "POST /events": {"name": "it.happened"},
    "POST /inbound-hooks": {"event_name": "it.happened"},
    "POST /inbound-hooks/{hook_id}/rotate-secret": {},
    "POST /webhooks/{webhook_id}/rotate-secret": {},
    "POST /webhooks": {"url": "https://example.com/hook", "events": ["job.*"]},
    "PATCH /webhooks/{webhook_id}": {"description": "d"},
    "POST /workflows": {"document": {"key": "made", "steps": [{"id": "wait", "sleep": "1m"}]}},
    "POST /workflows/check": {"document": {}},
    "POST /workflows/dry-run": {"document": {}},
    "POST /workflows/{key}/rollback": {"version": 1},
    "PATCH /workflows/{key}": {"is_enabled": True},
    "POST /intents": {"workflow": "made", "allow_unknown": True},
    "POST /runs/{run_id}/fork": {"step": "wait"},
    "POST /runs/{run_id}/signal": {"name": "go"},
    "POST /approvals/{approval_id}/decision": {"approve": True},
    "POST /effects/{effect_id}/settle": {"outcome": "not_done"},
    "POST /policies": {"label": "l", "effect": "allow"},
    "POST /policies/check": {"workflow": "made"},
    "PATCH /policies/{label}": {"effect": "allow"},
    "POST /hosts": {"name": "h"},
    "PATCH /hosts/{host_id}": {"is_active": True},
    "POST /hosts/{host_id}/instances": {"name": "i"},
    "PATCH /hosts/{host_id}/instances/{instance_id}": {"name": "j"},
    "POST /tokens": {"subject": "s", "role": "enqueuer"},
    "POST /grants": {"login": "atlas_guest", "tenants": ["acme"], "job_types": ["x.work"]},
    "POST /tenants": {"slug": "third", "name": "Third"},
    "PATCH /tenants/{slug_or_id}": {"name": "Renamed"},
    "PUT /system/atlas-online": {"online": True, "reason": "the maintenance is over"},
    "PUT /pauses": {"kind": "trigger", "target": "t"},
    "PUT /system/engine-enabled": {"enabled": True},
    "POST /session": {"token": "atl_none"},
    "POST /worker/jobs/claim": {"job_types": ["x.work"]},
}
LEASE = {"heartbeat": {}, "progress": {}, "result": {"status": "succeeded"}, "complete": {}, "fail": {"error": "e"}}
# Asked for with another kind of credential, or open to this machine alone: tested on their own.
ELSEWHERE = ("POST /session", "DELETE /session", "GET /metrics")
# The key in the address is itself the credential.
BY_KEY = ("POST /hooks/{key}",)
UNVERSIONED = ("/healthz", "/readyz", "/metrics", "/hooks/{key}")
# What is said about an object of another tenant must be what is said about one that never was.
SHARED = {"slug_or_id", "key", "label"}
# A workflow that there is not has no version at all.
NO_NUMBERS = {"row_id": 2**40, "version": 1}


def body_of(row):
    method, path = row.split(" ")
    if method in ("GET", "DELETE"):
        return None
    last = path.rsplit("/", 1)[-1]
    if path.startswith("/agent/"):
        return {"lease": 1, **LEASE[last]}
    if path.startswith("/worker/jobs/{"):
        return {"attempt": 1, **LEASE[last]}
    return BODIES.get(row)


def filled(path, things):
    return re.sub(r"{(\w+)}", lambda found: str(things[found[1]]), path)


def may(row, tenant, role):
    allowed = TABLE[row].split()
    return "everyone" in allowed or role in allowed or (f"{role}*" in allowed and tenant == "all")


@pytest.fixture
async def things(pool, world):
    """Rows of each tenant, and of none."""
    await furnish_installation(pool)
    found = {tenant.slug: await furnish_tenant(pool, tenant) for tenant in (world.acme, world.other)}
    for slug in found:
        found[slug] |= {"token_id": world.ids[slug, "enqueuer"], "verification_id": uuid4()}
    found["nobody"] = {
        name: NO_NUMBERS.get(name) or ("nobodys" if name in SHARED else uuid4()) for name in found["acme"]
    }
    return found


async def ask(world, tenant, role, row, things):
    method, path = row.split(" ")
    place = filled(path, things)
    base = "http://atlas.test" if path in UNVERSIONED else "http://atlas.test/api/v1"
    query = {"wait": 0} if path.endswith("/jobs") and "agent" in path else None
    async with world.client(tenant, role) as client:
        return await client.request(method, f"{base}{place}", json=body_of(row), params=query)


def test_the_table_has_a_row_for_every_address_and_the_description_agrees(spec):
    described = {
        f"{method.upper()} {path.removeprefix('/api/v1')}": " ".join(one.get("x-roles", ["everyone"]))
        for path, ones in spec["paths"].items()
        for method, one in ones.items()
    }

    assert described == {row: roles.replace("*", "") for row, roles in TABLE.items()}


ROLES = ["operator", "tenant_admin", "enqueuer", "auditor", "host", "worker"]


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_gets_where_the_table_says_and_nowhere_else(world, things, role):
    tenant = "all" if role == "operator" else "acme"
    wrong = []
    for row in TABLE:
        if row in ELSEWHERE:
            continue
        own = dict(things["acme"], key="echo.it") if "definitions" in row else things["acme"]
        answer = await ask(world, tenant, role, row, own)
        refused = answer.status_code in (401, 403)
        if refused == may(row, tenant, role):
            wrong.append((row, answer.status_code, answer.text[:150]))
        if answer.status_code >= 500:
            wrong.append((row, answer.status_code, answer.text[:150]))
    assert wrong == []


@pytest.mark.parametrize("role", [role for role in ROLES if role != "operator"])
async def test_a_thing_of_another_tenant_is_as_missing_as_one_that_never_was(world, things, role):
    wrong = []
    for row in TABLE:
        if "{" not in row or not may(row, "acme", role) or "verification" in row or row in BY_KEY:
            continue
        foreign = await ask(world, "acme", role, row, things["other"])
        missing = await ask(world, "acme", role, row, things["nobody"])
        same = _without(foreign, things["other"]) == _without(missing, things["nobody"])
        # What is leased to someone else is lost alike, also to an unknown one.
        if foreign.status_code not in (404, 409) or not same:
            wrong.append((row, foreign.text[:120], missing.text[:120]))
    assert wrong == []


@pytest.mark.parametrize("role", [role for role in ROLES if role != "operator"])
async def test_another_tenants_name_is_404_like_one_that_does_not_exist(world, things, role):
    for row in [row for row in TABLE if may(row, "acme", role) and "{" not in row and "session" not in row]:
        method, path = row.split(" ")
        async with world.client("acme", role) as client:
            client.headers["X-Request-Id"] = "same"
            foreign = await client.request(method, path, json=body_of(row), params={"tenant": "other"})
            nobodys = await client.request(method, path, json=body_of(row), params={"tenant": "nobodys"})
            own = await client.request(method, path, json=body_of(row), params={"tenant": "acme", "limit": 1})
        assert foreign.text.replace("other", "nobodys") == nobodys.text or foreign.status_code == own.status_code
        assert foreign.status_code in (404, own.status_code), (row, foreign.text)
        assert b"of other" not in foreign.content
        assert str(world.other.id) not in foreign.text


async def test_without_a_credential_only_public_addresses_respond(world, things):
    wrong = []
    for row in TABLE:
        method, path = row.split(" ")
        base = "http://atlas.test" if path in UNVERSIONED else "http://atlas.test/api/v1"
        async with world.client() as client:
            del client.headers["Authorization"]
            answer = await client.request(method, f"{base}{filled(path, things['acme'])}", json=body_of(row))
        open_to_all = TABLE[row] == "everyone" and row not in ELSEWHERE
        if (answer.status_code == 401) == open_to_all:
            wrong.append((row, answer.status_code))
    assert wrong == []


async def test_lists_of_a_tenant_show_nothing_of_another(world, things):
    for row in TABLE:
        method, path = row.split(" ")
        if method != "GET" or "{" in path or not may(row, "acme", "tenant_admin"):
            continue
        answer = await ask(world, "acme", "tenant_admin", row, {})
        assert str(world.other.id) not in answer.text, row
        assert "-other" not in answer.text, row


def _without(answer, things):
    text = answer.text.replace(answer.headers["x-request-id"], "?")
    for value in sorted(map(str, things.values()), key=len, reverse=True):
        text = text.replace(value, "?")
    # The caller's own workflows whose keys are like the one that was asked for.
    text = re.sub(r"Similar: [^\"]*|`atlas workflow list --workflows` shows them\.", "?", text)
    return answer.status_code, text


async def test_naming_a_foreign_tenant_takes_the_same_lookups_as_naming_none(world, admin, monkeypatch):
    tenants = world.app.state.api.tenants
    sought = []

    async def find(slug_or_id):
        sought.append(str(slug_or_id))
        return await TenantCache.find(tenants, slug_or_id)

    monkeypatch.setattr(tenants, "find", find)
    await world.client().get("/jobs", params={"tenant": "other"})  # an operator leaves it in the cache
    for name in ("other", "missing", str(world.other.id), str(uuid4())):
        sought.clear()
        answer = await admin.get("/jobs", params={"tenant": name})
        assert (answer.status_code, set(sought)) == (404, {str(world.acme.id)})
        assert answer.json()["detail"].startswith(f"There is no tenant {name}")
    for own in ("acme", str(world.acme.id)):
        assert (await admin.get("/jobs", params={"tenant": own})).status_code == 200
