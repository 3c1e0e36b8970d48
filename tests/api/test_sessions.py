"""Sessions: a token becomes a cookie that no script reads, no other site uses, and that expires."""

import asyncio
from datetime import timedelta

import httpx
import pytest

from atlas.actors import system
from atlas.api.access.authentication import CACHED_SECONDS
from atlas.api.access.browsers import browser_name
from atlas.api.caches.ttl_cache import TtlCache
from atlas.api.live.socket import CHECK_SECONDS
from atlas.audit.personal_data import erase
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.access.sessions import delete_expired_sessions, make_link
from atlas.engine.access.tokens import add_token, authenticate, revoke_token
from tests.support import DANA, until

PLAIN, TLS = "http://atlas.test", "https://atlas.test"


def browser(world, origin=PLAIN):
    """A page of Atlas in a browser: it keeps cookies and says where it comes from."""
    transport = httpx.ASGITransport(world.app, raise_app_exceptions=False, client=("10.1.2.3", 4711))
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    return httpx.AsyncClient(transport=transport, base_url=f"{origin}/api/v1", headers=headers)


async def sign_in(client, world, who=("acme", "tenant_admin")):
    answer = await client.post("/session", json={"token": world.tokens[who]})
    assert answer.status_code == 201, answer.text
    return answer


@pytest.fixture
async def page(world):
    """A page whose visitor is signed in and whose changes carry the other half of the session."""
    client = browser(world)
    client.headers["X-CSRF-Token"] = (await sign_in(client, world)).json()["csrf_token"]
    return client


async def test_a_token_becomes_a_cookie_that_no_script_reads(world, conn):
    client = browser(world)
    answer = await sign_in(client, world)
    cookie = answer.headers["set-cookie"]
    name, _, secret = cookie.partition(";")[0].partition("=")
    shown = answer.json()

    assert name == "atlas"
    assert {"HttpOnly", "Path=/", "SameSite=lax", "Max-Age=43200"} <= {part.strip() for part in cookie.split(";")}
    assert len(secret) >= 43  # 256 random bits
    assert (shown["subject"], shown["role"], shown["tenant"]) == ("tenant_admin@acme", "tenant_admin", "acme")
    stored = await conn.fetchrow("select s::text as shown from atlas.sessions s")
    assert secret not in stored["shown"]
    assert world.tokens["acme", "tenant_admin"] not in answer.text + cookie
    assert (await client.get("/session")).json() == shown
    assert (await client.get("/jobs")).status_code == 200


async def test_over_tls_the_cookie_is_one_that_no_other_host_can_set(world):
    client = browser(world, TLS)
    cookie = (await sign_in(client, world)).headers["set-cookie"]

    assert cookie.startswith("__Host-atlas=")
    assert {"Secure", "HttpOnly", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "Domain" not in cookie
    answer = await client.get("/session")
    assert answer.status_code == 200
    assert "max-age" in answer.headers["strict-transport-security"]
    # The plain page's cookie means nothing here.
    secret = cookie.partition(";")[0].partition("=")[2]
    plain = httpx.AsyncClient(transport=client._transport, base_url=f"{TLS}/api/v1", cookies={"atlas": secret})
    assert (await plain.get("/session")).status_code == 401


async def test_a_change_needs_the_csrf_token_and_the_same_origin(world, page, conn):
    body = {"job_type": "x.work"}
    token = page.headers["X-CSRF-Token"]
    refused = [
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "0" * 64},
        {"X-CSRF-Token": "ü".encode()},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ]
    for headers in refused:
        answer = await page.post("/jobs", json=body, headers=headers)
        assert answer.status_code == 403, headers
    del page.headers["Sec-Fetch-Site"]  # an older browser sends the origin alone
    for origin in ("http://evil.test", "null", "https://atlas.test", "http://atlas.test:8080"):
        assert (await page.post("/jobs", json=body, headers={"Origin": origin})).status_code == 403
    del page.headers["Origin"]
    assert (await page.post("/jobs", json=body)).status_code == 403
    assert await conn.fetchval("select count(*) from atlas.jobs") == 0
    assert (await page.post("/jobs", json=body, headers={"Origin": PLAIN, "X-CSRF-Token": token})).status_code == 201


async def test_a_page_of_another_site_signs_no_one_in(world):
    client = browser(world)
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.test"}):
        body = {"token": world.tokens["acme", "tenant_admin"]}
        answer = await client.post("/session", json=body, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


async def test_a_token_and_a_session_together_are_refused(world, page):
    answer = await page.get("/jobs", headers=world.headers("acme", "tenant_admin"))

    assert answer.status_code == 401


async def test_programs_do_not_sign_in_and_wrong_tokens_do_not_either(world):
    client = browser(world)

    for role in ("host", "worker"):
        assert (await client.post("/session", json={"token": world.tokens["acme", role]})).status_code == 403
    for token in ("atl_aaaaaaaa_" + "x" * 43, "x", "ü" * 500):
        assert (await client.post("/session", json={"token": token})).status_code == 401


async def test_signing_out_ends_the_session_everywhere_and_leaves_its_events(world, page, conn):
    secret = page.cookies["atlas"]
    answer = await page.delete("/session")
    page.cookies.set("atlas", secret, domain="atlas.test")

    assert answer.status_code == 204
    assert 'atlas=""' in answer.headers["set-cookie"]
    assert (await page.get("/session")).status_code == 401
    rows = await conn.fetch("select action, meta from atlas.audit_log where entity_type = 'session' order by id")
    assert [row["action"] for row in rows] == ["SIGNED_IN", "SIGNED_OUT"]
    assert all('"request_id"' in row["meta"] and '"ip"' in row["meta"] for row in rows)


async def test_signing_in_again_ends_the_session_that_the_browser_had(world, page, conn):
    first = page.cookies["atlas"]
    assert (await page.get("/session")).status_code == 200
    await sign_in(page, world, ("all", "operator"))

    old = browser(world)
    old.cookies.set("atlas", first, domain="atlas.test")
    assert (await old.get("/session")).status_code == 401
    assert (await page.get("/session")).json()["role"] == "operator"
    rows = await conn.fetch("select action, actor_id from atlas.audit_log where entity_type = 'session' order by id")
    assert [tuple(row) for row in rows] == [
        ("SIGNED_IN", "tenant_admin@acme"),
        ("SIGNED_OUT", "tenant_admin@acme"),
        ("SIGNED_IN", "operator@all"),
    ]


async def test_another_browser_stays_signed_in(world, page):
    await sign_in(browser(world), world)

    assert (await page.get("/session")).status_code == 200


async def test_an_export_with_a_session_begins_on_our_own_pages_only(world, page, conn, pool, settings):
    await seal_and_sign(pool, settings)
    token = page.headers.pop("X-CSRF-Token")
    del page.headers["Origin"]  # browsers send none when they read
    for site in ("cross-site", "same-site", "none"):
        assert (await page.get("/audit/export", headers={"Sec-Fetch-Site": site})).status_code == 403
    del page.headers["Sec-Fetch-Site"]  # without TLS a browser does not send it
    assert (await page.get("/audit/export")).status_code == 403
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'AUDIT_EXPORTED'") == 0

    assert (await page.get("/audit/export", headers={"Sec-Fetch-Site": "same-origin"})).status_code == 200
    assert (await page.get("/audit/export", headers={"X-CSRF-Token": token})).status_code == 200
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'AUDIT_EXPORTED'") == 2


@pytest.mark.parametrize("way", ["token", "session"])
async def test_a_cached_credential_is_refused_when_it_expires(world, page, owner, way):
    client = world.client("acme", "tenant_admin") if way == "token" else page
    id = world.ids["acme", "tenant_admin"]
    soon = "update atlas.api_tokens set expires_at = clock_timestamp() + interval '1 second' where id = $1"
    await owner.execute(soon, id)
    world.app.state.api.callers.forget()
    answers = []
    while not answers or answers[-1][1] == 200:
        is_valid = await owner.fetchval("select expires_at > clock_timestamp() from atlas.api_tokens where id = $1", id)
        answers.append((is_valid, (await client.get("/session")).status_code))
        await asyncio.sleep(0.02)

    # Whatever was accepted was valid when it was sent, although a caller is cached for ten seconds.
    assert all(was_valid for was_valid, status in answers if status == 200)
    assert answers[-1][1] == 401


@pytest.mark.parametrize(
    "ends", ["update atlas.sessions set ended_at = now()", "update atlas.api_tokens set revoked_at = now()"]
)
async def test_a_session_that_a_cache_still_knows_creates_no_credential(world, page, admin, owner, monkeypatch, ends):
    monkeypatch.setattr(TtlCache, "forget", lambda _: None)  # as if the notification were lost
    webhook = {"url": "https://shop.example/atlas", "events": ["job.failed"]}
    address = f"/webhooks/{(await admin.post('/webhooks', json=webhook)).json()['id']}"
    assert (await page.get("/session")).status_code == 200
    await owner.execute(ends)

    assert (await page.get("/session")).status_code == 200  # cached
    for refused in (
        await page.post("/tokens", json={"subject": "ci", "role": "enqueuer"}),
        await page.post("/webhooks", json=webhook),
        await page.patch(address, json={"url": "https://thief.example/atlas"}),
        await page.post("/inbound-hooks", json={"event_name": "it.happened"}),
    ):
        assert refused.status_code == 409, refused.text


async def test_a_revoked_token_that_a_cache_still_knows_opens_no_session(world, admin, owner, monkeypatch):
    monkeypatch.setattr(TtlCache, "forget", lambda _: None)  # as if the notification were lost
    assert (await admin.get("/jobs")).status_code == 200
    await owner.execute(
        "update atlas.api_tokens set revoked_at = now() where id = $1", world.ids["acme", "tenant_admin"]
    )

    refused = await browser(world).post("/session", json={"token": world.tokens["acme", "tenant_admin"]})

    assert (refused.status_code, await owner.fetchval("select count(*) from atlas.sessions")) == (409, 0)


@pytest.mark.parametrize(
    "ends",
    [
        "update atlas.sessions set expires_at = clock_timestamp() - interval '1 second'",
        "update atlas.api_tokens set expires_at = clock_timestamp() - interval '1 second'",
        "update atlas.api_tokens set revoked_at = clock_timestamp()",
        "update atlas.sessions set ended_at = clock_timestamp()",
    ],
)
async def test_a_session_is_valid_no_longer_than_its_lifetime_and_its_token(world, page, owner, ends):
    assert (await page.get("/session")).status_code == 200
    await owner.execute(ends)
    world.app.state.api.callers.forget()  # as if the seconds had passed for which a caller is remembered

    assert (await page.get("/session")).status_code == 401
    assert (await page.get("/jobs")).status_code == 401


async def test_a_revoked_token_is_refused_at_once_where_it_was_revoked(world, admin):
    made = (await admin.post("/tokens", json={"subject": "ci", "role": "enqueuer"})).json()
    other = world.client("acme", "enqueuer")
    other.headers["Authorization"] = f"Bearer {made['token']}"
    assert (await other.get("/jobs")).status_code == 200

    revoked = (await admin.delete(f"/tokens/{made['id']}")).json()

    assert revoked["revoked_at"] is not None
    assert (await other.get("/jobs")).status_code == 401


def test_elsewhere_a_revocation_takes_effect_within_thirty_seconds():
    # A caller is remembered for so long, and an open connection looks again after so long.
    assert CACHED_SECONDS + CHECK_SECONDS <= 25


async def test_expired_sessions_are_deleted(world, page, owner):
    await owner.execute("update atlas.sessions set expires_at = clock_timestamp() - $1::interval", timedelta(days=2))
    await delete_expired_sessions(owner)

    assert await owner.fetchval("select count(*) from atlas.sessions") == 0


@pytest.fixture
async def code(world, owner):
    """The code of a link that signs in as acme's administrator."""
    token = await authenticate(owner, world.tokens["acme", "tenant_admin"])
    return await make_link(owner, token, actor=system("test"))


async def test_a_link_signs_in_once_and_is_no_session(world, owner, code):
    client = browser(world)
    client.cookies.set("atlas", code)
    assert (await client.get("/session")).status_code == 401
    client.cookies.clear()

    answers = await asyncio.gather(*(browser(world).post("/session", json={"code": code}) for _ in range(4)))

    assert sorted(answer.status_code for answer in answers) in (
        [201, 401, 401, 401],
        [201, 401, 401, 409],
        [201, 401, 409, 409],
        [201, 409, 409, 409],
    )
    [signed_in] = [answer for answer in answers if answer.status_code == 201]
    assert signed_in.json()["subject"] == "tenant_admin@acme"
    assert (await browser(world).post("/session", json={"code": code})).status_code == 401
    events = (
        "select action, meta->>'session_id' as opened from atlas.audit_log where entity_type = 'session' order by id"
    )
    opened = await owner.fetchval("select id::text from atlas.sessions where not is_link")
    assert [tuple(row) for row in await owner.fetch(events)] == [
        ("SIGN_IN_LINK_MADE", None),
        ("SIGN_IN_LINK_USED", opened),
        ("SIGNED_IN", None),
    ]
    assert await cross_check(owner) == []


async def test_a_link_expires_and_ends_with_its_token(world, owner, code):
    await owner.execute("update atlas.sessions set expires_at = clock_timestamp() where is_link")
    assert (await browser(world).post("/session", json={"code": code})).status_code == 401
    await owner.execute("update atlas.sessions set expires_at = clock_timestamp() + interval '1 minute' where is_link")
    await owner.execute(
        "update atlas.api_tokens set revoked_at = clock_timestamp() where subject = 'tenant_admin@acme'"
    )
    assert (await browser(world).post("/session", json={"code": code})).status_code == 401


@pytest.mark.parametrize("body", [{}, {"token": "atl_a_b", "code": "c"}, {"code": ""}])
async def test_a_sign_in_has_a_token_or_a_code(world, body):
    assert (await browser(world).post("/session", json=body)).status_code == 422


async def test_sessions_are_listed_to_those_who_may_see_them(world, page):
    auditor, operator = browser(world), browser(world)
    await sign_in(auditor, world, ("acme", "auditor"))
    await sign_in(operator, world, ("all", "operator"))
    await sign_in(browser(world), world, ("other", "tenant_admin"))

    async def seen(client):
        return {(item["subject"], item["is_current"]) for item in (await client.get("/sessions")).json()["items"]}

    assert await seen(page) == {("tenant_admin@acme", True), ("auditor@acme", False)}
    assert await seen(auditor) == {("auditor@acme", True)}
    assert len(await seen(operator)) == 4
    assert await seen(world.client("acme", "enqueuer")) == set()


async def test_a_session_shows_its_browser_and_its_address_until_that_is_erased(world, conn):
    client = browser(world)
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0"
    client.headers["User-Agent"] = agent
    await sign_in(client, world)

    async def shown():
        [session] = (await client.get("/sessions")).json()["items"]
        return session["browser"], session["address"]

    assert await shown() == ("Firefox 131 on Linux", "10.1.2.3")
    stored = await conn.fetchval("select s::text from atlas.sessions s")
    assert "10.1.2.3" not in stored
    await erase(conn, "10.1.2.3", actor=DANA)
    assert await shown() == ("Firefox 131 on Linux", None)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36 Edg/130.0",
            "Edge 130 on Windows",
        ),
        (
            "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/129.0.0.0 Mobile Safari/537.36",
            "Chrome 129 on Android",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_6) AppleWebKit/605.1.15 Version/17.6 Safari/605.1.15",
            "Safari 17 on macOS",
        ),
        ("Mozilla/5.0 (iPhone; CPU OS 17_5 like Mac OS X) Version/17.5 Mobile/15E148 Safari/604.1", "Safari 17 on iOS"),
        ("python-httpx/0.27", None),
    ],
)
def test_a_browser_is_named(agent, name):
    assert browser_name(agent) == name


async def test_a_session_is_ended_from_outside_at_once(world, page, conn):
    auditor, foreign = browser(world), browser(world)
    await sign_in(auditor, world, ("acme", "auditor"))
    await sign_in(foreign, world, ("other", "tenant_admin"))
    [other] = (await foreign.get("/sessions")).json()["items"]
    [own] = (await auditor.get("/sessions")).json()["items"]
    [mine] = [item for item in (await page.get("/sessions")).json()["items"] if item["is_current"]]

    assert (await page.delete(f"/sessions/{other['id']}")).status_code == 404
    assert (await world.client("acme", "enqueuer").delete(f"/sessions/{own['id']}")).status_code == 404
    assert (await page.delete(f"/sessions/{own['id']}")).status_code == 204
    assert (await auditor.get("/session")).status_code == 401
    assert (await page.delete(f"/sessions/{own['id']}")).status_code == 404
    event = await conn.fetchrow("select * from atlas.audit_log where action = 'SESSION_ENDED'")
    assert (event["actor_id"], event["entity_id"]) == ("tenant_admin@acme", own["id"])
    assert (await page.delete(f"/sessions/{mine['id']}")).status_code == 204
    assert (await page.get("/session")).status_code == 401


async def test_a_token_names_who_made_it(world, admin):
    made = (await admin.post("/tokens", json={"subject": "billing", "role": "enqueuer"})).json()
    listed = {item["subject"]: item["created_by"] for item in (await admin.get("/tokens")).json()["items"]}

    assert made["created_by"] == listed["billing"] == "tenant_admin@acme"
    assert listed["tenant_admin@acme"] == "dana"


async def test_every_process_forgets_a_token_that_is_revoked_elsewhere(world, conn):
    await until(lambda: world.app.state.signals.hears)
    # Not by its age.
    world.app.state.api.callers._callers_by_credential = TtlCache(3600)
    token, clear = await add_token(conn, subject="ci", role="tenant_admin", tenant=world.acme, actor=DANA)
    caller = world.client("acme", "enqueuer")
    caller.headers["Authorization"] = f"Bearer {clear}"
    assert (await caller.get("/jobs")).status_code == 200

    await revoke_token(conn, token.prefix, actor=DANA)

    async def is_refused():
        return (await caller.get("/jobs")).status_code == 401

    await until(is_refused)


async def test_a_token_is_revoked_with_all_that_were_created_with_it(world, admin, operator):
    made = (await admin.post("/tokens", json={"subject": "first", "role": "tenant_admin"})).json()
    first = world.client("acme", "tenant_admin")
    first.headers["Authorization"] = f"Bearer {made['token']}"
    second = (await first.post("/tokens", json={"subject": "second", "role": "enqueuer"})).json()

    revoked = (await operator.delete(f"/tokens/{made['id']}", params={"with_created": True})).json()

    assert [token["id"] for token in revoked["created"]] == [second["id"]]
    assert (await first.post("/tokens", json={"subject": "third", "role": "enqueuer"})).status_code == 401
