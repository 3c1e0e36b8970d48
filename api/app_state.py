"""What every request shares: the pool, who is known, how fast callers may be, and what was looked up a moment ago."""

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any
from uuid import UUID

import asyncpg

from atlas.api.authentication import Caller, Callers
from atlas.api.db import borrowed, ended_if_hung
from atlas.api.errors import Busy, TooManyRequests
from atlas.api.limits.concurrency import ConcurrencyLimit
from atlas.api.limits.connections import ConnectionShares
from atlas.api.limits.rates import Buckets, Rates
from atlas.api.ttl_cache import TtlCache
from atlas.db.pool import Connection, Pool, closed_if_silent
from atlas.db.statements import fetch_value, statement
from atlas.engine.tenants import Tenant, find_tenant
from atlas.logs import get_logger
from atlas.settings import Settings

WALLS = statement("api/sql/walls.sql")

READ_TIMEOUT = "5s"
WRITE_TIMEOUT = "15s"
# What waits for others (for one that holds a dedupe key until it commits, say) keeps a connection from everyone.
LOCK_TIMEOUT = "2s"
# Where others wait behind the transaction itself.
BRIEF_LOCK_TIMEOUT = "1s"
TENANT_SECONDS = 5.0
# Each keeps a connection for as long as its reader takes.
MOST_EXPORTS = 3
# Live connections, in all and of one tenant.
MOST_WATCHERS = 1000
MOST_WATCHERS_EACH = 250

log = get_logger("api")


# Runs some due jobs in-process and answers counts, a dataclass: `tick(pool, url, limit=10)`.
Tick = Callable[..., Awaitable[Any]]


class AppState:
    """The API of one process."""

    def __init__(self, settings: Settings, pool: Pool, url: str, *, tick: Tick | None, rates: Rates) -> None:
        self.settings = settings
        self.pool = pool
        self.url = url
        self.tick = tick
        self.rates = rates
        self.shares = ConnectionShares(pool.get_max_size())
        self.callers = Callers(pool, rates)
        self.exports = ConcurrencyLimit("for exports at the same time", most=MOST_EXPORTS, most_each=1)
        self.verifications = ConcurrencyLimit("for verifications at the same time", most=1, most_each=1)
        self.watchers = ConcurrencyLimit("to watch at the same time", most=MOST_WATCHERS, most_each=MOST_WATCHERS_EACH)
        self._buckets = Buckets()
        self._tenants: TtlCache[str, Tenant] = TtlCache(TENANT_SECONDS)
        self._walls: bool | None = None

    @asynccontextmanager
    async def transaction(
        self, tenant_id: UUID | None, *, read_only: bool = False, share: Hashable = None
    ) -> AsyncIterator[Connection]:
        """A transaction that sees one tenant's rows alone, or everything where no tenant is named."""
        async with self.acquire(share=share) as conn, self.terms(conn, tenant_id, read_only=read_only):
            yield conn

    @asynccontextmanager
    async def acquire(self, *, watched: bool = True, share: Hashable = None) -> AsyncIterator[Connection]:
        """A connection, within a bearable time; one that is not watched may be kept for as long as it takes.

        What a caller asks for is of the caller's share.
        """
        async with (
            nullcontext() if share is None else self.shares.taken(share),
            borrowed(self.pool, watched=watched) as conn,
        ):
            yield conn

    @asynccontextmanager
    async def terms(self, conn: Connection, tenant_id: UUID | None, *, read_only: bool = False) -> AsyncIterator[None]:
        """A transaction on a connection at hand, under the terms of a tenant.

        They are set for the transaction, not the session: a pooled connection must not keep the last tenant's.
        """
        walls = tenant_id is not None and await self._has_walls(conn)
        with nullcontext() if read_only else _busy_if_late():
            async with conn.transaction(readonly=read_only):
                await conn.execute(_terms(tenant_id, walls=walls, read_only=read_only))
                yield

    @asynccontextmanager
    async def brief(
        self, conn: Connection, tenant_id: UUID | None, *, patience: str = BRIEF_LOCK_TIMEOUT
    ) -> AsyncIterator[None]:
        """The same in fewer round trips and with less patience for locks.

        For verbs that open no transaction of their own within it.
        """
        walls = tenant_id is not None and await self._has_walls(conn)
        terms = _terms(tenant_id, walls=walls, read_only=False, patience=patience)
        with _busy_if_late():
            async with ended_if_hung(conn):
                await conn.execute(f"begin; {terms}")
                try:
                    yield
                except BaseException:
                    if not conn.is_closed():
                        async with closed_if_silent(conn):
                            await conn.execute("rollback")
                    raise
                await conn.execute("commit")

    async def tenant(self, slug_or_id: str | UUID) -> Tenant:
        """A tenant, as it was at most some seconds ago."""
        key = str(slug_or_id)

        async def look_up() -> Tenant:
            async with self.acquire() as conn:
                return await find_tenant(conn, key)

        return await self._tenants.get(key, look_up)

    def forget_tenants(self) -> None:
        """Look every tenant up again."""
        self._tenants.forget()

    async def slow_down(self, caller: Caller) -> None:
        """Refuse a request beyond the rate of its token or of its tenant."""
        rates = self.rates
        wait = self._buckets.take(caller.token.id, rates.token, rates.token * rates.burst_seconds)
        if wait:
            raise TooManyRequests("with this token", wait)
        if caller.tenant_id is not None:
            key = str(caller.tenant_id)
            limits = (self._tenants.peek(key) or await self.tenant(key)).limits
            rate = float(limits.get("requests_per_second", rates.tenant))
            wait = self._buckets.take(caller.tenant_id, rate, max(1.0, rate * rates.burst_seconds))
            if wait:
                raise TooManyRequests("of this tenant", wait)

    async def _has_walls(self, conn: Connection) -> bool:
        """True if the database itself keeps tenants apart; asked once."""
        if self._walls is None:
            self._walls = bool(await fetch_value(conn, WALLS))
            if not self._walls:
                log.warning("row-level security is not in force; `atlas doctor` says what the database lacks")
        return self._walls


@contextmanager
def _busy_if_late() -> Iterator[None]:
    """A write that is out of time waited for others; there is nothing in its request to narrow, as in a read's."""
    try:
        yield
    except (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError) as error:
        raise Busy from error


def _terms(tenant_id: UUID | None, *, walls: bool, read_only: bool, patience: str = LOCK_TIMEOUT) -> str:
    terms = [f"statement_timeout = '{READ_TIMEOUT if read_only else WRITE_TIMEOUT}'", f"lock_timeout = '{patience}'"]
    if read_only:
        # Lists and counts have many shapes; a plan for each is cheaper than one plan for all.
        terms.append("plan_cache_mode = 'force_custom_plan'")
    if walls:
        terms += [f"atlas.tenant = '{tenant_id}'", "role = 'atlas_tenant'"]
    return "; ".join(f"set local {term}" for term in terms)
