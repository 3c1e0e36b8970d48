"""Rate limits: token buckets in this process. Each of several processes allows the full rate.

A request takes one token before its body is read, and a body with many jobs one for each of them. It may leave a bucket
in debt: then the next requests are refused, without reading their bodies, until the debt is paid.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from atlas.api.caches.tenant_cache import TenantCache
from atlas.api.http.client_address import holder_of
from atlas.api.problems import TooManyRequests, Unauthenticated

MAX_BUCKETS = 20_000
# How long a credential of an address that sent many wrong ones waits for those before it.
QUEUE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests, and jobs in their bodies, a second: of one token, of a tenant's people, of its hosts and workers
    (`agents`), to one inbound hook, and failed sign-ins of one address. Bursts last two seconds.
    """

    token: float = 1000.0
    tenant: float = 2000.0
    agents: float = 2000.0
    hook: float = 100.0
    failures: float = 1.0
    burst_seconds: float = 2.0
    max_failures: float = 20.0


class Buckets:
    """Token buckets by key; each fills at its rate up to its size, and a request takes one token."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: dict[object, tuple[float, float]] = {}

    def take(self, key: object, rate: float, size: float) -> float:
        """Take a token and return zero, or return how many seconds until there is one."""
        level = self.level(key, rate, size)
        if level < 1:
            self._levels[key] = (level, self._clock())
            return (1 - level) / rate
        self._levels[key] = (level - 1, self._clock())
        if len(self._levels) > MAX_BUCKETS:
            self._forget()
        return 0.0

    def charge(self, key: object, rate: float, size: float, tokens: float) -> None:
        """Take tokens, also those that are not there yet."""
        self._levels[key] = (self.level(key, rate, size) - tokens, self._clock())

    def wait(self, key: object, rate: float, size: float) -> float:
        """How many seconds until there is a token; takes none."""
        level = self.level(key, rate, size)
        return 0.0 if level >= 1 else (1 - level) / rate

    def level(self, key: object, rate: float, size: float) -> float:
        """How many tokens there are; fewer than zero where more were taken."""
        now = self._clock()
        level, at = self._levels.get(key, (size, now))
        return min(size, level + (now - at) * rate)

    def _forget(self) -> None:
        """Drop the half that was used longest ago: most of them are full again."""
        oldest_first = sorted(self._levels.items(), key=lambda item: item[1][1])
        self._levels = dict(oldest_first[len(oldest_first) // 2 :])


@dataclass(frozen=True, slots=True)
class RateLimit:
    """One limit that holds for a request: its name in headers, whose requests it counts, and its bucket."""

    name: str
    whose: str
    buckets: Buckets
    key: object
    rate: float
    size: float

    def take(self) -> None:
        """Take a token for a request, or refuse it."""
        wait = self.buckets.take(self.key, self.rate, self.size)
        if wait:
            raise TooManyRequests(self.whose, wait)

    def charge(self, jobs: int) -> None:
        """Take a token for each job of a body but the first, which the request itself has paid for."""
        self.buckets.charge(self.key, self.rate, self.size, jobs - 1)

    @property
    def level(self) -> float:
        """How many tokens there are."""
        return self.buckets.level(self.key, self.rate, self.size)


def rate_headers(limits: Sequence[RateLimit]) -> list[tuple[bytes, bytes]]:
    """The fields of draft-ietf-httpapi-ratelimit-headers: what the limits are, and what is left of them."""
    policy, state = [], []
    for limit in limits:
        level = limit.level
        policy.append(f'"{limit.name}";q={limit.size:.0f};w={math.ceil(limit.size / limit.rate)}')
        state.append(f'"{limit.name}";r={max(0, int(level))};t={math.ceil((limit.size - level) / limit.rate)}')
    return [(b"ratelimit-policy", ", ".join(policy).encode()), (b"ratelimit", ", ".join(state).encode())]


class RateLimiter:
    """The rates of tokens and of tenants."""

    def __init__(self, rates: Rates, tenants: TenantCache) -> None:
        self._rates = rates
        self._tenants = tenants
        self._buckets = Buckets()

    async def check(self, token_id: UUID, tenant_id: UUID | None, *, is_agent: bool) -> None:
        """Refuse a request beyond the rate of its token or of its tenant."""
        for limit in await self.limits_of(token_id, tenant_id, is_agent=is_agent):
            limit.take()

    async def limits_of(self, token_id: UUID, tenant_id: UUID | None, *, is_agent: bool) -> list[RateLimit]:
        """The limits of a caller's requests; the last one counts the jobs in their bodies too.

        Hosts and workers have a rate of their own, which the tenant's limit does not lower: a heartbeat that is refused
        may cost a lease.
        """
        rates, buckets = self._rates, self._buckets
        burst = rates.burst_seconds
        limits = [RateLimit("token", "with this token", buckets, token_id, rates.token, rates.token * burst)]
        if tenant_id is not None:
            rate = rates.agents if is_agent else await self._rate_of(tenant_id)
            name, whose = ("agents", "of this tenant's hosts and workers") if is_agent else ("tenant", "of this tenant")
            limits.append(RateLimit(name, whose, buckets, (tenant_id, is_agent), rate, max(1.0, rate * burst)))
        return limits

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
        if not self._buckets.wait(holder_of(address), self._rates.failures, self._rates.max_failures):
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
        wait = self._buckets.take(holder_of(address), self._rates.failures, self._rates.max_failures)
        return TooManyRequests("with wrong credentials from this address", wait) if wait else Unauthenticated()
