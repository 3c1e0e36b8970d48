"""Proxies: only the configured ones are believed about their callers, and only if they name an address."""

from dataclasses import replace

import httpx
import pytest

from atlas.api.app import create_app
from atlas.api.http.client_address import holder_of, plain_address
from atlas.api.limits.rates import Rates
from atlas.errors import SettingsError
from atlas.settings import load_settings
from tests.api.conftest import furnish, running

PROXY = "10.0.0.9"
IP = """
select p.value
from atlas.audit_log a
join atlas.audit_private p on p.entity_id is null and p.commitment = decode(a.meta->'ip'->>'commitment', 'hex')
where a.entity_id = $1"""


@pytest.fixture
async def world(pool, database_url, settings, opened, monkeypatch):
    """An API behind the proxies of 10.0.0.0/24 and ::1."""
    monkeypatch.setenv("ATLAS_TRUSTED_PROXIES", "10.0.0.0/24, ::1")
    trusting = replace(settings, atlas_trusted_proxies=load_settings().atlas_trusted_proxies)
    rates = Rates(failures=0.001, max_failures=3)
    app = await opened(running(create_app(trusting, pool, database_url, rates=rates)))
    return await furnish(pool, app)


def client_from(world, peer, **headers):
    transport = httpx.ASGITransport(world.app, client=(peer, 4711))
    return httpx.AsyncClient(transport=transport, base_url="http://atlas.test/api/v1", headers=headers)


async def recorded(world, conn, peer, *lines):
    """The address that the audit log has for a job that was posted with these lines of X-Forwarded-For."""
    headers = [*world.headers("acme", "enqueuer").items(), *(("X-Forwarded-For", line) for line in lines)]
    async with client_from(world, peer) as client:
        made = await client.post("/jobs", json={"job_type": "x.work"}, headers=headers)
    assert made.status_code == 201, made.text
    return await conn.fetchval(IP, made.json()["id"])


async def test_only_a_trusted_proxy_is_believed(world, conn):
    assert await recorded(world, conn, "192.0.2.1", "203.0.113.7") == "192.0.2.1"
    assert await recorded(world, conn, PROXY, "203.0.113.7") == "203.0.113.7"
    assert await recorded(world, conn, f"::ffff:{PROXY}", "203.0.113.7") == "203.0.113.7"
    assert await recorded(world, conn, PROXY) == PROXY


async def test_the_last_address_that_is_no_proxys_counts(world, conn):
    assert await recorded(world, conn, PROXY, "127.0.0.1, 203.0.113.7, 10.0.0.8") == "203.0.113.7"
    assert await recorded(world, conn, PROXY, "127.0.0.1", "203.0.113.7") == "203.0.113.7"
    assert await recorded(world, conn, PROXY, "10.0.0.7, 10.0.0.8") == "10.0.0.7"


async def test_a_request_that_only_reads_stores_no_address(world, conn):
    async with client_from(world, "192.0.2.1", **world.headers("all", "operator")) as client:
        for path in ("/jobs", "/tenants", "/insights/export", "/tokens"):
            assert (await client.get(path)).status_code == 200, path
        assert await conn.fetchval("select count(*) from atlas.audit_private") == 0
        await client.get("/audit/export")  # It leaves an event.
    assert await conn.fetchval("select value from atlas.audit_private") == "192.0.2.1"


async def test_what_is_no_address_is_never_recorded(world, conn):
    for text in ("unknown", "<script>", "203.0.113.7'; --", "1.2.3.4, x", "", "203.0.113.256"):
        assert await recorded(world, conn, PROXY, text) == PROXY
    assert await recorded(world, conn, "a-socket") is None


async def test_no_header_gets_round_the_limit_on_wrong_credentials(world):
    for peer, sent in (
        ("192.0.2.1", "203.0.113.{n}"),  # no proxy
        (PROXY, "203.0.113.{n}, 192.0.2.2"),  # invented before it came to the proxy
        (PROXY, "guess-{n}"),
        (PROXY, "2001:db8::{n}"),  # all of one network
    ):
        found = []
        for n in range(5):
            wrong = {"Authorization": f"Bearer atl_aaaaaaaa_{'x' * 42}{n}", "X-Forwarded-For": sent.format(n=n)}
            async with client_from(world, peer, **wrong) as client:
                found.append((await client.get("/jobs")).status_code)
        assert found == [401, 401, 401, 429, 429]


async def test_a_trusted_proxy_says_whether_its_caller_used_tls(world):
    signing_in = {"token": world.tokens["acme", "tenant_admin"]}
    for peer, scheme, secure in [(PROXY, "https", True), (PROXY, "ftp", False), ("192.0.2.1", "https", False)]:
        async with client_from(world, peer, **{"X-Forwarded-Proto": scheme}) as client:
            made = await client.post(
                "/session", json=signing_in, headers={"Origin": f"http{'s' * secure}://atlas.test"}
            )
        assert made.status_code == 201, made.text
        assert ("__Host-atlas=" in made.headers["set-cookie"]) is secure
        assert ("strict-transport-security" in made.headers) is secure


async def test_a_server_without_the_setting_trusts_no_proxy_on_its_own_machine(server, conn):
    headers = server.world.headers("acme", "enqueuer") | {"X-Forwarded-For": "203.0.113.7"}
    async with httpx.AsyncClient(base_url=f"{server.address}/api/v1", headers=headers) as client:
        made = await client.post("/jobs", json={"job_type": "x.work"})
    assert await conn.fetchval(IP, made.json()["id"]) == "127.0.0.1"


def test_a_wrong_proxy_is_refused_at_start(monkeypatch):
    for wrong in ("localhost", "10.0.0.1/8", "127.0.0.1,", "*"):
        monkeypatch.setenv("ATLAS_TRUSTED_PROXIES", wrong)
        with pytest.raises(SettingsError, match="must list addresses or networks, such as"):
            load_settings()


def test_an_address_has_one_spelling():
    assert plain_address("::FFFF:192.0.2.1") == "192.0.2.1"
    assert plain_address("2001:DB8:0::1") == "2001:db8::1"
    assert plain_address("192.0.2.1:80") is None
    assert holder_of("2001:db8::1") == holder_of("2001:db8::ffff") != holder_of("2001:db8:0:1::1")


async def scheme_of(world, *values, forwarded_for="203.0.113.7"):
    """The scheme that a session's cookie was made for, behind a proxy that sends these lines of X-Forwarded-Proto."""
    lines = [("X-Forwarded-For", forwarded_for), *(("X-Forwarded-Proto", value) for value in values)]
    async with client_from(world, PROXY) as client:
        answer = await client.post("/session", json={"token": world.tokens["acme", "tenant_admin"]}, headers=lines)
    assert answer.status_code == 201, answer.text
    return "https" if answer.headers["set-cookie"].startswith("__Host-") else "http"


async def test_the_scheme_of_the_caller_counts_where_several_proxies_name_one(world):
    assert await scheme_of(world, "https") == "https"
    assert await scheme_of(world, "https, http", forwarded_for="203.0.113.7, 10.0.0.8") == "https"
    assert await scheme_of(world, "https", "http", forwarded_for="203.0.113.7, 10.0.0.8") == "https"
    # Invented before it came to the proxy.
    assert await scheme_of(world, "https, http") == "http"
    assert await scheme_of(world, "gopher, ") == "http"


async def test_a_proxy_that_sends_only_x_real_ip_is_believed(world, conn):
    headers = world.headers("acme", "enqueuer") | {"X-Real-IP": "203.0.113.7"}
    async with client_from(world, PROXY) as client:
        made = await client.post("/jobs", json={"job_type": "x.work"}, headers=headers)
    assert await conn.fetchval(IP, made.json()["id"]) == "203.0.113.7"


@pytest.mark.parametrize("header", ["X-Real-IP", "X-Forwarded-Proto", "Via", "Forwarded"])
async def test_metrics_are_not_open_to_what_came_through_a_proxy_on_this_machine(world, header):
    transport = httpx.ASGITransport(world.app, client=("127.0.0.1", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/metrics", headers={header: "203.0.113.7"})).status_code == 401


async def test_several_credentials_or_tenants_are_refused(world):
    token = world.headers("acme", "enqueuer")["Authorization"]
    async with client_from(world, "192.0.2.1") as client:
        twice = await client.get("/jobs", headers=[("Authorization", token), ("Authorization", token)])
        tenants = await client.get("/jobs?tenant=acme&tenant=other", headers={"Authorization": token})
    assert (twice.status_code, tenants.status_code) == (401, 422)
    assert "several Authorization headers" in twice.json()["detail"]
    assert tenants.json()["errors"] == [{"field": "query.tenant", "reason": "was sent several times"}]
