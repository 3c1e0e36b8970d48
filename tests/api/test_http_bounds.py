"""The server's bounds: what a client may send before its request is whole, how long, and over how many connections."""

import asyncio
import contextlib
import json
import socket
from ipaddress import ip_network

import httpx
import pytest
import websockets
from structlog.testing import CapturingLogger

import atlas.api.routing
from atlas.api.http.client_address import TrustedProxies
from atlas.api.limits import client_connections
from atlas.api.limits.client_connections import ClientConnections
from tests.support import until

GET = b"GET /healthz HTTP/1.1\r\nHost: atlas.test\r\n"
KIB, MIB = 1024, 1024 * 1024


@pytest.fixture
def hasty(monkeypatch):
    """Seconds become tenths of them."""
    for name in ("HEAD_SECONDS", "LINGER_SECONDS", "STALL_SECONDS"):
        monkeypatch.setattr(client_connections, name, 0.3)


@pytest.fixture
async def dial(server):
    """Opens connections to the server."""
    writers = []

    async def connect():
        reader, writer = await asyncio.open_connection(*server.listening.getsockname())
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.transport.abort()


async def response(reader):
    """Status, headers and body of the next response; None where the connection ends instead."""
    async with asyncio.timeout(20):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        return int(lines[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def send(dial, data):
    reader, writer = await dial()
    writer.write(data)
    return await response(reader)


async def ended(reader):
    """The connection ends, with nothing more than was read."""
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


def assert_refused(found, status, kind):
    assert found is not None
    assert found[0] == status
    assert found[1]["content-type"] == "application/problem+json"
    assert found[1]["connection"] == "close"
    assert json.loads(found[2])["type"] == f"urn:atlas:problem:{kind}"


async def test_a_head_has_64_kib_and_100_headers_at_most(dial):
    def padded(size):
        return GET + b"X: " + b"x" * (size - len(GET) - 7) + b"\r\n\r\n"

    assert (await send(dial, padded(63 * KIB)))[0] == 200
    for wrong in (
        padded(65 * KIB),
        padded(10 * MIB),
        GET + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 990) for n in range(70)) + b"\r\n",
        b"GET /healthz?" + b"x" * 70 * KIB + b" HTTP/1.1\r\nHost: atlas.test\r\n\r\n",
    ):
        assert_refused(await send(dial, wrong), 431, "head-too-large")

    assert (await send(dial, GET + b"X: y\r\n" * 99 + b"\r\n"))[0] == 200
    assert_refused(await send(dial, GET + b"X: y\r\n" * 100 + b"\r\n"), 431, "head-too-large")


async def test_a_header_that_never_ends_is_refused_while_it_is_sent(dial):
    reader, writer = await dial()
    writer.write(GET + b"X: ")
    refused = asyncio.create_task(response(reader))
    for _ in range(200):
        if refused.done():
            break
        writer.write(b"x" * 16 * KIB)
        await asyncio.sleep(0.01)
    assert_refused(await refused, 431, "head-too-large")


async def test_trailers_and_chunk_sizes_that_never_end_are_refused_too(dial, server, hasty):
    post = b"POST /api/v1/session HTTP/1.1\r\nHost: atlas.test\r\nContent-Type: application/json\r\n"
    for endless in (b"0\r\nX: ", b"1;x="):
        reader, writer = await dial()
        writer.write(post + b"Transfer-Encoding: chunked\r\n\r\n" + endless)
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(b"x" * 16 * KIB)
                await writer.drain()
                await asyncio.sleep(0.005)
        assert await response(reader) is None
    assert server.app.state.api.clients.refused["head_too_large"] == 2


async def test_trailers_do_not_become_headers_of_the_request(dial, server):
    token = server.world.headers("acme", "enqueuer")["Authorization"].encode()
    head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nAuthorization: " + token
    body = b'{"job_type": "x.work"}'
    chunked = b"%x\r\n%s\r\n0\r\nX-Correlation-Id: two words\r\n\r\n" % (len(body), body)
    found = await send(dial, head + b"\r\nContent-Type: application/json\r\n\r\n" + chunked)
    assert found[0] == 201, found


async def test_a_large_body_in_one_piece_with_its_head_is_no_large_head(dial, server):
    token = server.world.headers("acme", "enqueuer")["Authorization"].encode()
    body = json.dumps({"job_type": "x.work", "payload": {"x": "x" * 200 * KIB}}).encode()
    head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: %s\r\n"
    reader, writer = await dial()
    writer.write((head % token + b"Content-Length: %d\r\n\r\n" % len(body) + body) * 2 + GET[:20])
    assert [(await response(reader))[0] for _ in range(2)] == [201, 201]
    writer.write(GET[20:] + b"\r\n")
    assert (await response(reader))[0] == 200


async def test_what_is_not_http_is_a_problem_document(dial):
    assert_refused(await send(dial, b"hello\r\n\r\n"), 400, "malformed-request")


async def test_an_upgrade_to_anything_but_a_websocket_is_ignored(dial):
    assert (await send(dial, GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"))[0] == 200


async def test_few_requests_are_sent_ahead_of_their_responses(dial):
    reader, writer = await dial()
    writer.write((GET + b"\r\n") * 10)
    assert [(await response(reader))[0] for _ in range(10)] == [200] * 10
    reader, writer = await dial()
    writer.write((GET + b"\r\n") * 1000)
    assert await response(reader) is None


async def test_a_head_that_takes_too_long_is_408(dial, hasty):
    reader, writer = await dial()
    writer.write(GET)
    assert_refused(await response(reader), 408, "head-too-slow")
    await ended(reader)


async def test_silent_connections_are_closed(dial, hasty, server, monkeypatch):
    monkeypatch.setattr(atlas.api.routing, "BODY_IDLE_SECONDS", 0.3)
    nothing, _ = await dial()
    blank, writer = await dial()
    writer.write(b"\r\n\r\n")
    between, writer = await dial()
    writer.write(GET + b"\r\n")
    assert (await response(between))[0] == 200
    post = b"POST /api/v1/%s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    answered, writer = await dial()
    writer.write(post % b"jobs")
    assert (await response(answered))[0] == 401  # before the body has come
    unfinished, writer = await dial()
    writer.write(post % b"session")

    assert_refused(await response(unfinished), 408, "body-too-slow")
    await asyncio.gather(*(ended(one) for one in (nothing, between, answered, unfinished)))
    assert (await response(blank))[0] == 408
    await until(lambda: not len(server.app.state.api.clients))


async def test_bytes_of_a_body_that_was_answered_keep_no_connection(dial, hasty):
    reader, writer = await dial()
    writer.write(b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
    assert (await response(reader))[0] == 401
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"x")
                await asyncio.sleep(0.05)


@pytest.mark.long
async def test_a_client_that_reads_nothing_is_cut_off(server, hasty):
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(server.listening.getsockname())
        # Enough for any buffer in between.
        for _ in range(15):
            deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: server.app.state.api.clients.refused["stalled"] == 1)
        await until(lambda: not len(server.app.state.api.clients))


async def test_silent_connections_make_room_for_others(dial, server):
    clients = server.app.state.api.clients
    clients.most, clients.max_each = 8, 6
    silent = [await dial() for _ in range(6)]
    await until(lambda: len(clients) == 6)
    assert (await send(dial, GET + b"\r\n"))[0] == 200
    await ended(silent[0][0])
    assert clients.refused["connections_of_address"] == 1
    assert len(clients) == 6

    async with httpx.AsyncClient() as client:
        metrics = (await client.get(f"{server.address}/metrics")).text
    assert 'atlas_http_refused_total{reason="connections_of_address"}' in metrics
    assert "atlas_http_connections " in metrics
    assert "atlas_http_connections_limit 8.0" in metrics


async def test_beyond_the_limit_of_connections_in_use_a_new_one_is_503(dial, server):
    clients = server.app.state.api.clients
    clients.most = clients.max_each = 3
    address = f"{server.address}/api/v1/live".replace("http", "ws")
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            headers = server.world.headers("acme", "tenant_admin")
            await stack.enter_async_context(websockets.connect(address, additional_headers=headers))
        reader, _ = await dial()
        refused = await response(reader)
        assert_refused(refused, 503, "too-many-connections")
        assert refused[1]["retry-after"]
        assert len(clients) == 3
    await until(lambda: not len(clients))
    assert (await send(dial, GET + b"\r\n"))[0] == 200


class Wire:
    """A transport of which only its end is of interest."""

    def __init__(self):
        self.is_aborted = False

    def abort(self):
        self.is_aborted = True

    def get_write_buffer_size(self):
        return 0


def test_connections_are_bounded_well_below_the_files_and_by_address(monkeypatch):
    clients = ClientConnections(TrustedProxies([]), files=256)
    assert (clients.most, clients.max_each) == (170, 85)
    assert ClientConnections(TrustedProxies([]), files=10**6).most == 10_000

    wires = [Wire() for _ in range(300)]
    for wire in wires:
        clients.add(wire, "192.0.2.1", lambda: None)
    assert [wire.is_aborted for wire in wires] == [True] * 215 + [False] * 85
    for n in range(300):
        clients.add(Wire(), f"2001:db8:0:{n % 2}::{n:x}", lambda: None)
    assert len(clients) == 170
    monkeypatch.setattr(client_connections, "log", logged := CapturingLogger())
    clients.sweep()
    clients.add(Wire(), "192.0.2.1", lambda: None)
    clients.sweep()
    [entry] = logged.calls  # the second would come seconds later
    assert entry.method_name == "warning"
    assert (entry.kwargs["open"], entry.kwargs["most"]) == (170, 170)
    assert entry.kwargs["connections_of_address"] >= 215


def test_a_trusted_proxy_is_not_one_client():
    clients = ClientConnections(TrustedProxies([ip_network("10.0.0.0/8")]), files=30)
    added = [clients.add(Wire(), "10.0.0.1", lambda: None) for _ in range(clients.most)]
    assert len(clients) == len(added) == 20
    assert not clients.refused
