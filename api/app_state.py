"""What all requests of one process share: the database, caches and limits."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

from atlas.api.access.authentication import Callers
from atlas.api.access.caller_addresses import CallerAddresses
from atlas.api.access.refused_calls import RefusedCalls
from atlas.api.caches.tenant_cache import TenantCache
from atlas.api.db import Database
from atlas.api.http.client_address import TrustedProxies
from atlas.api.inbound_hooks import InboundHooks
from atlas.api.limits.batches import BatchSlots
from atlas.api.limits.client_connections import ClientConnections
from atlas.api.limits.concurrency import ConcurrencyLimit
from atlas.api.limits.helpers import HelperShares
from atlas.api.limits.rates import RateLimiter, Rates
from atlas.api.replica.replica import Replica
from atlas.db.pool import Pool
from atlas.engine.helper_process import HelperPool
from atlas.settings import Settings

# Each keeps a connection for as long as its reader takes.
MAX_EXPORTS = 3
# Live connections, in all and of one tenant; requests of one host that wait for a job.
MAX_WATCHERS = 1000
MAX_WATCHERS_EACH = 250
MAX_POLLS_EACH = 32

# Check documents and fill in templates for all applications of this process, one of each caller at a time.
HELPERS = HelperPool(2)

# Runs some due jobs in-process and returns counts, a dataclass: `tick(pool, url, limit=10)`.
Tick = Callable[..., Awaitable[Any]]


class AppState:
    """The API of one process."""

    def __init__(self, settings: Settings, pool: Pool, url: str, *, tick: Tick | None, rates: Rates) -> None:
        self.settings = settings
        # When /readyz last found that the database can be written, by the clock that never goes back.
        self.ready_at = -math.inf
        self.url = url
        self.tick = tick
        self.db = Database(pool)
        read_url = settings.atlas_read_database_url
        staleness = settings.atlas_read_staleness_seconds
        self.replica = None if read_url is None else Replica(read_url, pool, staleness=staleness)
        self.tenants = TenantCache(self.db)
        self.callers = Callers(self.db, rates)
        self.addresses = CallerAddresses(self.db)
        self.refused_calls = RefusedCalls()
        self.rate_limiter = RateLimiter(rates, self.tenants)
        self.batch_slots = BatchSlots()
        self.inbound_hooks = InboundHooks(self.db, rates)
        self.helper_shares = HelperShares(HELPERS)
        self.exports = ConcurrencyLimit("for exports at the same time", most=MAX_EXPORTS, max_each=1)
        self.verifications = ConcurrencyLimit("for verifications at the same time", most=1, max_each=1)
        self.tenant_verifications = ConcurrencyLimit("for verifications at the same time", most=1, max_each=1)
        self.proxies = TrustedProxies(settings.atlas_trusted_proxies or ())
        self.clients = ClientConnections(self.proxies)
        # Those that last leave a third of the connections to everyone else.
        third = self.clients.most // 3
        self.watchers = ConcurrencyLimit(
            "to watch at the same time", most=min(MAX_WATCHERS, third), max_each=min(MAX_WATCHERS_EACH, third)
        )
        self.host_polls = ConcurrencyLimit("of hosts that wait for a job", most=third, max_each=MAX_POLLS_EACH)

    async def record_refusals(self) -> None:
        """Record in the audit log what was refused since the last time."""
        await self.callers.refused.record(self.db, self.addresses)
        await self.refused_calls.record(self.db, self.addresses)

    def forget_credentials(self) -> None:
        """Empty the caches of credentials: one of them has ended."""
        self.callers.forget()
        self.inbound_hooks.forget()
