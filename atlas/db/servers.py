"""Connects to the one of several servers that takes writes: `postgresql://a,b,c/atlas?target_session_attrs=read-write`.

asyncpg asks the servers of an address one after the other, all within one timeout. A machine that has lost its power
refuses nothing: the first such one would take all of the time, and no connection would ever be made. So here each is
asked without waiting for a silent one before it.
"""

import asyncio
import re
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

# How long a server may be silent before the next one is asked too.
NEXT_SERVER_SECONDS = 0.5

_PRIMARY = ("read-write", "primary")
_SERVER = re.compile(r"(?P<host>\[[^]]*]|[^:]*)(?::(?P<port>[0-9]+))?")


def servers_of(url: str) -> list[tuple[str, int]]:
    """Host and port of each server that an address names, in its order. Raises ValueError for what is no address."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    hosts = (unquote(parts.netloc.rpartition("@")[2]) or query.get("host", [""])[-1]).split(",")
    ports = query.get("port", ["5432"])[-1].split(",")
    return [_server(host, ports[number if len(ports) > 1 else 0]) for number, host in enumerate(hosts)]


async def connect_to_primary(url: str, *, timeout: float, **options: Any) -> Any:
    """As `asyncpg.connect`. Where it looks for the primary among several servers, it does not wait for a silent one."""
    session_attrs = parse_qs(urlsplit(url).query).get("target_session_attrs", ["any"])[-1]
    if "," not in url or session_attrs not in _PRIMARY:
        return await asyncpg.connect(url, timeout=timeout, **options)
    servers = servers_of(url)
    tries: list[asyncio.Task[Any]] = []
    chosen = None
    try:
        async with asyncio.timeout(timeout):
            while chosen is None:
                if servers:
                    host, port = servers.pop(0)
                    connecting = asyncpg.connect(url, host=host, port=port, timeout=timeout, **options)
                    tries.append(asyncio.create_task(connecting))
                chosen = await _first(tries, within=NEXT_SERVER_SECONDS if servers else None)
        return chosen
    finally:
        await _drop(tries, chosen)


async def _first(tries: list[asyncio.Task[Any]], *, within: float | None) -> Any:
    """The first connection that was made; None if one more has failed, or none was made in time."""
    waiting = [attempt for attempt in tries if not attempt.done()]
    if not waiting:
        raise _telling([error for attempt in tries if (error := attempt.exception()) is not None])
    await asyncio.wait(waiting, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    return next((attempt.result() for attempt in tries if attempt.done() and attempt.exception() is None), None)


async def _drop(tries: list[asyncio.Task[Any]], chosen: Any) -> None:
    for attempt in tries:
        attempt.cancel()
    for outcome in await asyncio.gather(*tries, return_exceptions=True):
        if outcome is not chosen and not isinstance(outcome, BaseException):
            outcome.terminate()


def _telling(errors: list[BaseException]) -> BaseException:
    """What a server said, rather than that it is a standby, rather than that it cannot be reached."""
    said = [error for error in errors if isinstance(error, asyncpg.PostgresError)]
    if not said and any(isinstance(error, asyncpg.TargetServerAttributeNotMatched) for error in errors):
        said = [asyncpg.TargetServerAttributeNotMatched("those of its servers that respond are standbys")]
    return (said or errors)[-1]


def _server(text: str, port: str) -> tuple[str, int]:
    match = _SERVER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a host and a port")
    return match["host"].strip("[]"), int(match["port"] or port)
