"""A database of its own for each measurement, on the server that was given, by socket or by TCP."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

BACKENDS = """
select pid from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"""


@asynccontextmanager
async def own_database(server_url: str, purpose: str) -> AsyncIterator[str]:
    """The address of a new, empty database, dropped afterwards with its remaining connections."""
    name = f"bench_{purpose.replace('-', '_')}_{secrets.token_hex(4)}"
    await _on_server(server_url, f'create database "{name}"')
    try:
        yield at_database(server_url, name)
    finally:
        await _on_server(server_url, f'drop database if exists "{name}" with (force)')


def at_database(url: str, name: str) -> str:
    """The same server, another database. `urlunsplit` would lose the empty host of a socket's address."""
    parts = urlsplit(url)
    tail = urlunsplit(("", "", f"/{quote(name, safe='')}", parts.query, ""))
    return f"{parts.scheme}://{parts.netloc}{tail}"


async def count(database_url: str, query: str) -> int:
    """The result of a counting query."""
    async with connected(database_url) as conn:
        return int(await conn.fetchval(query))


async def server_us(owner: asyncpg.Connection) -> float:
    """Microseconds of processor time that the other connections to this database have used, on this machine."""
    used = 0
    for row in await owner.fetch(BACKENDS):
        with suppress(FileNotFoundError):
            used += int(Path(f"/proc/{row['pid']}/schedstat").read_text().split()[0])
    return used / 1e3


async def settle(database_url: str) -> None:
    """Let the planner know what lies in the tables, as it would soon after in a living system."""
    async with connected(database_url) as conn:
        await conn.execute("vacuum (analyze)")


@asynccontextmanager
async def connected(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """One connection for a while."""
    conn = await asyncpg.connect(database_url)
    try:
        yield conn
    finally:
        await conn.close()


async def _on_server(server_url: str, statement: str) -> None:
    async with connected(server_url) as conn:
        await conn.execute(statement)
