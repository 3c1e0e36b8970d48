"""Rate limits: token buckets in this process. Each of several processes allows the full rate."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from atlas.api.client_address import holder_of
from atlas.api.problems import TooManyRequests, Unauthenticated
from atlas.api.tenant_cache import TenantCache

MOST_BUCKETS = 20_000
# How long a credential of an address that sent many wrong ones waits for those before it.
QUEUE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests a second: of one token, of a tenant's people, of its hosts and workers (`agents`), to one inbound hook,
    and failed sign-ins of one address. Bursts last two seconds.
    """

    token: float = 1000.0
    tenant: float = 2000.0
    agents: float = 2000.0
    hook: float = 100.0
    failures: float = 1.0
    burst_seconds: float = 2.0
    most_failures: float = 20.0


class RateLimiter:
    """The rates of tokens and of tenants."""

    def __init__(self, rates: Rates, tenants: TenantCache) -> None:
        self._rates = rates
        self._tenants = tenants
        self._buckets = Buckets()

    async def check(self, token_id: UUID, tenant_id: UUID | None, *, is_agent: bool) -> None:
        """Refuse a request beyond the rate of its token or of its tenant.

        Hosts and workers have a rate of their own, which the tenant's limit does not lower: a heartbeat that is refused
        may cost a lease.
        """
        rates = self._rates
        wait = self._buckets.take(token_id, rates.token, rates.token * rates.burst_seconds)
        if wait:
            raise TooManyRequests("with this token", wait)
        if tenant_id is None:
            return
        rate = rates.agents if is_agent else await self._rate_of(tenant_id)
        wait = self._buckets.take((tenant_id, is_agent), rate, max(1.0, rate * rates.burst_seconds))
        if wait:
            raise TooManyRequests("of this tenant's hosts and workers" if is_agent else "of this tenant", wait)

    async def _rate_of(self, tenant_id: UUID) -> float:
        limits = (self._tenants.peek(str(tenant_id)) or await self._tenants.find(tenant_id)).limits
        return float(limits.get("requests_per_second", self._rates.tenant))


class FailedSignIns:
    """The rate of wrong credentials from one address."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._buckets = Buckets()
        # Addresses that may be guessing share this, so that they use one connection at most.
        self._one_at_a_time = asyncio.Semaphore(1)

    @asynccontextmanager
    async def lookup(self, address: str | None) -> AsyncIterator[None]:
        """Hold this while looking up a credential. A good one is accepted, whatever else came from its address."""
        if not self._buckets.wait(holder_of(address), self._rates.failures, self._rates.most_failures):
            yield
            return
        async with asyncio.timeout(QUEUE_SECONDS):
            await self._one_at_a_time.acquire()
        try:
            yield
        finally:
            self._one_at_a_time.release()

    def count(self, address: str | None) -> Unauthenticated | TooManyRequests:
        """Count a wrong credential and return the error to raise."""
        wait = self._buckets.take(holder_of(address), self._rates.failures, self._rates.most_failures)
        return TooManyRequests("with wrong credentials from this address", wait) if wait else Unauthenticated()


class Buckets:
    """Token buckets by key; each fills at its rate up to its size, and a request takes one token."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: dict[object, tuple[float, float]] = {}

    def take(self, key: object, rate: float, size: float) -> float:
        """Take a token and return zero, or return how many seconds until there is one."""
        now = self._clock()
        level, at = self._levels.get(key, (size, now))
        level = min(size, level + (now - at) * rate)
        if level < 1:
            self._levels[key] = (level, now)
            return (1 - level) / rate
        self._levels[key] = (level - 1, now)
        if len(self._levels) > MOST_BUCKETS:
            self._forget()
        return 0.0

    def wait(self, key: object, rate: float, size: float) -> float:
        """How many seconds until there is a token; takes none."""
        level, at = self._levels.get(key, (size, self._clock()))
        level = min(size, level + (self._clock() - at) * rate)
        return 0.0 if level >= 1 else (1 - level) / rate

    def _forget(self) -> None:
        """Drop the half that was used longest ago: most of them are full again."""
        oldest_first = sorted(self._levels.items(), key=lambda item: item[1][1])
        self._levels = dict(oldest_first[len(oldest_first) // 2 :])
