"""A primary and its standby: an address that names both, and one that leads to the wrong one for a while."""

import asyncio

import asyncpg
import pytest

from atlas.cli.doctor.database import check_database
from atlas.db.failures import public_url
from atlas.db.notifications import PING_SECONDS, Listener
from atlas.db.pool import connect, open_pool
from atlas.db.servers import servers_of
from atlas.errors import DatabaseNotReady
from tests.cluster.server import Server
from tests.proxy import FaultyProxy
from tests.support import until


@pytest.fixture(scope="module")
def primary():
    server = Server()
    server.configure(fsync="off", archive_mode="off")
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def standby(primary):
    server = Server(primary)
    server.start()
    yield server
    server.remove()


@pytest.fixture
async def ports(primary, standby):
    """The proxies of the standby and of the primary."""
    async with FaultyProxy(standby.url("postgres", "postgres")) as first:
        async with FaultyProxy(primary.url("postgres", "postgres")) as second:
            yield first, second


def both(*proxies: FaultyProxy, query: str = "?target_session_attrs=read-write") -> str:
    addresses = [proxy.address.removeprefix("http://") for proxy in proxies]
    return f"postgresql://postgres:secret@{','.join(addresses)}/postgres{query}"


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("postgresql://u:p@a,b:5433/atlas", [("a", 5432), ("b", 5433)]),
        ("postgresql://u:p%40@[::1]:1,[::2]/atlas", [("::1", 1), ("::2", 5432)]),
        ("postgresql:///atlas?host=a,b&port=1,2", [("a", 1), ("b", 2)]),
        ("postgresql:///atlas?host=/run/one,b&port=7", [("/run/one", 7), ("b", 7)]),
        ("postgresql://%2Frun%2Fone,b/atlas", [("/run/one", 5432), ("b", 5432)]),
    ],
)
def test_an_address_names_several_servers(url, servers):
    assert servers_of(url) == servers


def test_an_address_of_several_servers_is_shown_without_its_password():
    assert public_url("postgresql://atlas:s3cret@a:5432,b:5433/shop?password=s3cret") == "a:5432,b:5433/shop"


async def test_of_several_servers_the_one_that_takes_writes_is_used(ports):
    pool = await open_pool(both(*ports), size=2)
    for conn in await asyncio.gather(pool.acquire(), pool.acquire()):
        assert not await conn.fetchval("select pg_is_in_recovery()")
        await pool.release(conn)
    await pool.close()


@pytest.mark.long
async def test_a_server_that_is_silent_keeps_no_one_from_the_next(ports):
    ports[0].silent = True
    conn = await connect(both(*ports))
    assert not await conn.fetchval("select pg_is_in_recovery()")
    await conn.close()


async def test_servers_of_which_none_takes_writes_are_said_so(ports):
    ports[1].refuses = True
    with pytest.raises(DatabaseNotReady, match="takes no writes now: those of its servers that respond are standbys"):
        await connect(both(*ports))
    ports[1].refuses = False


@pytest.mark.long
async def test_without_the_wish_for_the_primary_doctor_says_which_it_is(ports):
    url = both(*ports, query="")
    conn = await connect(url)
    [primary] = [one for one in await check_database(conn, url) if one.check == "primary"]
    await conn.close()
    assert primary.verdict == "fail"
    assert "target_session_attrs=read-write" in primary.remedy


async def test_a_pool_does_not_keep_a_connection_to_a_standby(ports, primary):
    """As when a proxy still leads to the server that was the primary, and came back as a standby."""
    proxy = ports[0]
    pool = await open_pool(proxy.url, size=1)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await pool.execute("create table written ()")
    proxy.lead_to(primary.url("postgres", "postgres"))
    await until(lambda: _writes(pool))
    await pool.close()


@pytest.mark.long
async def test_a_pool_that_reads_from_a_standby_keeps_its_connections(standby):
    pool = await open_pool(standby.url("postgres", "postgres"), size=1, standby=True)
    assert len({await pool.fetchval("select pg_backend_pid()") for _ in range(3)}) == 1
    await pool.close()


@pytest.mark.long
async def test_a_listener_whose_connection_is_lost_listens_on_another_server_at_once(ports, primary):
    """Not at its next ping, up to ten seconds later."""
    notified: list[str] = []
    listener = Listener(both(*ports), ("jobs",), lambda channel, _: notified.append(channel))
    listener.start()
    await until(lambda: listener.is_listening)
    ports[1].cut()
    # Every channel counts as notified when it listens again.
    assert await until(lambda: len(notified) == 2) < PING_SECONDS / 2
    await listener.stop()


async def _writes(pool) -> bool:
    await pool.execute("create table if not exists written ()")
    return True
