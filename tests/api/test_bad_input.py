"""Bad input is refused with a field and a reason, in one shape, and never causes an internal error."""

import asyncio
import json
import random
import string
import time
from urllib.parse import quote

import httpx
import psutil
import pytest

import atlas.api.routing
from tests.api.test_matrix import BODIES, body_of, filled
from tests.support import PROOF

FUZZED = 20_000 if PROOF else 300
JOB = {"job_type": "x.work"}
MIB = 1024 * 1024


def assert_problem(answer, status, *fields):
    """The one shape, with the status in it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    received = answer.json()
    assert received.keys() == {"type", "title", "status", "detail", "remedy", "errors", "request_id"}
    assert received["request_id"] == answer.headers["x-request-id"]
    assert received["status"] == status
    assert received["type"].startswith("urn:atlas:problem:")
    assert [error["field"] for error in received["errors"]] == list(fields) or not fields
    assert all(error.keys() == {"field", "reason"} and error["reason"] for error in received["errors"])
    return received


async def send(client, body, path="/jobs", kind="application/json"):
    headers = {} if kind is None else {"Content-Type": kind}
    return await client.post(path, content=body if isinstance(body, bytes) else body.encode(), headers=headers)


WRONG_FIELDS = [
    ({"priority": "5"}, "priority"),
    ({"priority": True}, "priority"),
    ({"priority": 1.5}, "priority"),
    ({"priority": 10**9}, "priority"),
    ({"max_retries": -1}, "max_retries"),
    ({"payload": []}, "payload"),
    ({"payload": None}, "payload"),
    ({"scheduled_for": "tomorrow"}, "scheduled_for"),
    ({"scheduled_for": "2026-02-30T00:00:00Z"}, "scheduled_for"),
    ({"scheduled_for": "2026-02-01T00:00:00"}, "scheduled_for"),
    ({"scheduled_for": 1}, "scheduled_for"),
    ({"dedupe_key": ""}, "dedupe_key"),
    ({"correlation_id": "x" * 201}, "correlation_id"),
    ({"host_id": "me"}, "host_id"),
    ({"retries": 3}, "retries"),
    ({"definition_key": "echo.it"}, ""),
]


async def test_a_wrong_field_is_named_with_its_reason(admin):
    for fields, wrong in WRONG_FIELDS:
        assert_problem(await admin.post("/jobs", json={**JOB, **fields}), 422, wrong)
        several = await admin.post("/jobs", json=[JOB, {**JOB, **fields}])
        assert_problem(several, 422, f"1.{wrong}".rstrip("."))


async def test_a_wrong_correlation_id_in_the_header_is_named(admin):
    for wrong in ("two words", "x" * 201, "caf\xe9".encode("latin-1"), ""):
        answer = await admin.post("/jobs", json=JOB, headers={"X-Correlation-Id": wrong})
        assert_problem(answer, 422, "header.X-Correlation-Id")


async def test_a_rule_has_a_label_that_its_address_can_end_in(world):
    operator = world.client()
    for label in ("a/b", ".", "..", "/"):
        received = await operator.post("/policies", json={"label": label, "effect": "block", "workflow": "x"})
        assert_problem(received, 422, "label")
    for label in ("a?b", "a%2Fb", "v1.2", "ä ö"):
        made = await operator.post("/policies", json={"label": label, "effect": "block", "workflow": "x"})
        gone = await operator.delete(f"/policies/{quote(label, safe='')}")
        assert (made.status_code, gone.status_code) == (201, 204), label


async def test_an_action_that_cannot_be_one_is_refused(admin):
    assert (await admin.get("/audit", params={"action": ["JOB_CREATED", "JOB_FAILED"]})).status_code == 200
    assert_problem(await admin.get("/audit", params={"action": "true"}), 422, "query.action.0")


AMBIGUOUS = [
    ("", "is not JSON"),
    ("{", "is not JSON"),
    ("{'job_type': 'x'}", "is not JSON"),
    ('{"job_type": "x", "job_type": "y"}', "twice"),
    ('{"job_type": "x", "payload": {"a": {"b": 1, "b": 2}}}', "twice"),
    ('{"job_type": "x", "payload": {"a": 1, "\\u0061": 2}}', "twice"),
    ('{"job_type": "x", "payload": {"a": NaN}}', "is not JSON"),
    ('{"job_type": "x", "payload": {"a": Infinity}}', "is not JSON"),
    ('{"job_type": "x", "payload": {"a": "\\u0000"}}', "U+0000"),
    ('{"job_type": "x", "payload": {"\\u0000": 1}}', "U+0000"),
    ('{"job_type": "x", "payload": {"a": "\\ud800"}}', "is not JSON"),
    ('{"job_type": "x", "payload": {"a": 123456789012345678901234567890}}', "64 bits"),
    ('{"job_type": "x", "payload": {"a": 1e999}}', "is not JSON"),
    ('{"job_type": "x", "payload": {"a": ' + "[" * 31 + "]" * 31 + "}}", "32 levels"),
    ("[" * 5000 + "]" * 5000, "JSON"),
    ("[" * 200_000, "JSON"),
    ('{"a":' * 5000 + "1" + "}" * 5000, "JSON"),
    ("[" + "0," * 250_000 + "0]", "values"),
    (b'{"job_type": "\xff"}', "is not JSON"),
    (json.dumps(JOB).encode("utf-16"), "is not JSON"),
    (b"\xef\xbb\xbf" + json.dumps(JOB).encode(), "is not JSON"),
    ('"text"', "object"),
    ("5", "object"),
    ("null", "object"),
]


async def test_json_that_two_parsers_could_read_differently_is_refused(admin):
    for body, reason in AMBIGUOUS:
        received = assert_problem(await send(admin, body), 422)
        assert reason in received["errors"][0]["reason"], body[:100]


async def test_deep_and_large_bodies_within_the_limits_are_accepted(admin, conn):
    deep = '{"job_type": "x.work", "payload": {"a": ' + "[" * 30 + "]" * 30 + "}}"
    texts = {"colons": "a:b:c", "slash": "the letters \\u0000", "number": 2**63 - 1, "float": 1e300}

    assert (await send(admin, deep)).status_code == 201
    made = await admin.post("/jobs", json={**JOB, "payload": texts})
    assert made.status_code == 201
    assert (await admin.get(f"/jobs/{made.json()['id']}")).json()["payload"] == texts


async def test_a_payload_has_the_size_its_type_allows(admin):
    fits = await admin.post("/jobs", json={**JOB, "payload": {"a": "x" * (255 * 1024)}})
    large = await admin.post("/jobs", json={**JOB, "payload": {"a": "x" * (257 * 1024)}})

    assert fits.status_code == 201
    assert "256 KiB" in assert_problem(large, 422)["errors"][0]["reason"]


async def test_bodies_have_a_limit_by_address(admin):
    async def size(path, size):
        return await send(admin, json.dumps({"a": "x" * size}), path)

    assert_problem(await size("/jobs", 3 * MIB), 422)  # read, and then not understood
    assert_problem(await size("/jobs", 4 * MIB), 413)
    assert_problem(await size("/events", MIB // 2), 422)
    assert_problem(await size("/events", MIB), 413)


async def test_a_body_is_counted_while_it_arrives_and_not_read_to_its_end(server):
    """A caller that sends without end, or more than its Content-Length, is disconnected at the limit."""
    host, port = server.address.removeprefix("http://").split(":")
    token = server.world.tokens["acme", "tenant_admin"]
    head = (
        f"POST /api/v1/events HTTP/1.1\r\nHost: atlas\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode())
    sent = 0
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with pytest.raises(ConnectionError):
        while sent < 200 * MIB:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            await asyncio.sleep(0)
    print(f"cut off after {sent / MIB:.1f} MiB")
    assert sent < 30 * MIB

    async with httpx.AsyncClient() as client:  # the server goes on
        assert (await client.get(f"{server.address}/healthz")).json() == {"ok": True}


async def test_a_body_that_does_not_arrive_times_out(server, monkeypatch):
    monkeypatch.setattr(atlas.api.routing, "BODY_SECONDS", 1.0)
    host, port = server.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        "POST /api/v1/session HTTP/1.1\r\nHost: atlas\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    )
    writer.write(head.encode())
    reading = asyncio.create_task(reader.readuntil(b"body-too-slow"))
    async with asyncio.timeout(10):
        while not reading.done():  # Each byte is soon enough after the one before.
            writer.write(b" ")
            await asyncio.sleep(0.2)
    writer.close()

    assert reading.result().startswith(b"HTTP/1.1 408")
    assert reading.result().endswith(b"urn:atlas:problem:body-too-slow")


NOT_JSON = [
    None,
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "application/json; charset=latin-1",
    "application/xml",
    "json",
]


async def test_a_body_that_is_not_json_is_refused(admin):
    for kind in NOT_JSON:
        assert_problem(await send(admin, json.dumps(JOB), kind=kind), 415)
        assert_problem(await send(admin, json.dumps({"name": "e"}), "/events", kind=kind), 415)


SPELLINGS = [
    "application/json",
    "Application/JSON",
    'application/json; charset="utf-8"',
    "application/json;charset=UTF-8",
]


async def test_the_media_type_of_json_has_several_spellings(admin):
    for kind in SPELLINGS:
        assert (await send(admin, json.dumps(JOB), kind=kind)).status_code == 201


async def test_a_wrong_method_names_the_right_ones_and_a_wrong_address_is_404(admin):
    wrong = await admin.request("PUT", "/jobs", json={})
    nothing = await admin.get("/nothing")

    assert_problem(wrong, 405)
    assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert_problem(nothing, 404)
    assert_problem(await admin.request("PATCH", "/jobs/summary"), 405)
    assert_problem(await admin.get("/jobs/not-an-id"), 404)


async def test_a_wrong_query_is_named(admin):
    for query, field in {
        "limit=0": "query.limit",
        "limit=201": "query.limit",
        "limit=x": "query.limit",
        "limit=" + "9" * 5000: "query.limit",
        "cursor=x": "query.cursor",
        "created_after=yesterday": "query.created_after",
        "status=lost": "query.status.0",
        "tenant=No+Slug": "query.tenant",
    }.items():
        assert_problem(await admin.get(f"/jobs?{query}"), 422, field)
    assert_problem(await admin.get("/jobs?job_type=%00"), 422)
    for query in ("job_type=%ff%fe", "job_type=%ed%a0%80", "%00%00", "=&=&", "status", "limit=1&limit=2"):
        assert (await admin.get(f"/jobs?{query}")).status_code in (200, 422), query


async def test_headers_may_hold_anything(admin):
    odd = ["\xff\xfe".encode("latin-1"), b"x" * 5000, b"'; drop table atlas.jobs; --", b"%00", b"\xc3\x28"]
    for name in (
        "Idempotency-Key",
        "X-Correlation-Id",
        "X-Request-Id",
        "Authorization",
        "Cookie",
        "X-CSRF-Token",
        "Host",
        "Origin",
    ):
        for value in odd:
            answer = await admin.post("/jobs", json=JOB, headers={name: value})
            assert answer.status_code in (201, 401, 422), (name, value, answer.text)
            assert answer.headers["x-request-id"].isascii()
            assert len(answer.headers["x-request-id"]) <= 64


ODD = [
    None, True, 0, -1, 1.5, 2**31, 2**53, 2**63, -(2**63), 10**40, 1e308, "", " ", "x", "x" * 3000, "\x01", "\u202e", "\ud83d\ude00",
    "\ufffe", "atl_", "../../etc/passwd", "'; drop table atlas.jobs; --", "{{ 7 * 7 }}", "${x}", "%s%n", "-rf", "0 0 * * *", "2026-11-15T00:00:00Z",
    "9999-12-31T23:59:59+14:00", "0001-01-01T00:00:00-14:00", "00000000-0000-0000-0000-000000000000", [], [[]], {}, {"": ""}, {"x-secret": "a"},
]  # fmt: skip


def mutated(value, chance):
    """The value with something odd at a random position."""
    match chance.randrange(8):
        case 0:
            return chance.choice(ODD)
        case 1 if isinstance(value, dict):
            return {**value, "".join(chance.choices(string.printable, k=chance.randrange(6))): chance.choice(ODD)}
        case 2 if isinstance(value, dict) and value:
            return {name: item for name, item in value.items() if name != chance.choice(list(value))}
        case 3:
            return [value] * chance.choice([0, 1, 2, 50])
        case _ if isinstance(value, dict) and value:
            name = chance.choice(list(value))
            return {**value, name: mutated(value[name], chance)}
        case _ if isinstance(value, list) and value:
            return [*value[1:], mutated(value[0], chance)]
        case _:
            return chance.choice(ODD)


def broken(body, chance):
    """Bytes that once were JSON."""
    match chance.randrange(6):
        case 0:
            at = chance.randrange(len(body) + 1)
            return body[:at] + bytes(chance.choices(range(256), k=chance.randrange(1, 5))) + body[at:]
        case 1:
            return body[: chance.randrange(len(body) + 1)]
        case 2:
            return body.decode().encode(chance.choice(["utf-16", "utf-32", "utf-8-sig", "utf-7"]))
        case 3:
            depth = chance.choice([5, 33, 200, 1025, 5000])
            return b'{"a":' * depth + body + b"}" * depth
        case 4:
            return body.replace(b'"', b'"\\u0000', 1) if chance.random() < 0.5 else body.replace(b":", b":NaN,", 1)
        case _:
            return b"[" + b",".join([body] * chance.choice([2, 20, 300])) + b"]"


@pytest.mark.long
async def test_no_body_causes_an_internal_error(world, pool):
    """Valid, invalid and broken bodies, to every address that takes one."""
    chance = random.Random(4711)
    rows = sorted(row for row in BODIES if row not in ("POST /session", "POST /jobs/tick"))
    rows += ["POST /jobs"] * len(rows)
    names = ("trigger_id", "run_id", "approval_id", "instance_id", "webhook_id", "hook_id", "effect_id")
    things = dict.fromkeys(names, world.acme.id)
    things |= {"host_id": world.hosts["acme"].id, "slug_or_id": "acme", "key": "greet", "label": "rule"}
    client, worker = world.client(), world.client("acme", "worker")
    process = psutil.Process()
    slowest, counts, memory = [], {}, 0
    for n in range(FUZZED):
        method, path = (row := chance.choice(rows)).split(" ")
        value = body_of(row)
        for _ in range(chance.randrange(3)):
            value = mutated(value, chance)
        body = json.dumps(value).encode()
        if chance.random() < 0.3:
            body = broken(body, chance)
        began = time.perf_counter()
        answer = await (worker if "worker" in path else client).request(
            method, filled(path, things), content=body, params={"tenant": "acme"} if chance.random() < 0.5 else None, headers={"Content-Type": "application/json"}
        )  # fmt: skip
        slowest.append(time.perf_counter() - began)
        counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, (row, body[:500], answer.text)
        if answer.status_code >= 400:
            assert_problem(answer, answer.status_code)
        if n == FUZZED // 4:
            memory = process.memory_info().rss
    slowest.sort()
    growth = (process.memory_info().rss - memory) / MIB
    print(
        f"bodies {FUZZED}, answers {counts}, slowest {slowest[-1] * 1000:.0f} ms, p99.9 {slowest[int(len(slowest) * 0.999)] * 1000:.0f} ms, memory {growth:+.1f} MiB"
    )
    assert slowest[int(len(slowest) * (0.999 if PROOF else 0.99))] < 1
    assert not PROOF or growth < 20


async def test_one_thing_too_many_is_a_conflict_with_its_remedy(pool, world, admin, operator):
    await operator.patch("/tenants/acme", json={"limits": {"quotas": {"hosts": 1, "tokens": 6}}})
    for path, body in (("/hosts", {"name": "x"}), ("/tokens", {"subject": "x", "role": "enqueuer"})):
        answers = [await admin.post(path, json=body) for _ in range(2)]
        problem = answers[-1].json()
        assert (answers[-1].status_code, problem["type"]) == (409, "urn:atlas:problem:quota-reached")
        assert f"have an operator raise the tenant's limit quotas{path.replace('/', '.')}" in problem["remedy"]
