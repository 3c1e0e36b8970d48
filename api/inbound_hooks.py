"""Inbound hooks by their keys, from a cache, with rate limits of their own."""

from typing import TYPE_CHECKING

from atlas.api.caches.ttl_cache import TtlCache
from atlas.api.db import READ_SECONDS, Database
from atlas.api.limits.rates import Buckets, FailedSignIns, Rates
from atlas.api.problems import TooManyRequests
from atlas.errors import AtlasError, NotFound

if TYPE_CHECKING:
    from atlas.engine.webhooks.inbound import HookSecret

# A hook that was removed is refused everywhere after this time.
CACHED_SECONDS = 10.0


class InboundHooks:
    """The hooks that messages arrive for."""

    def __init__(self, db: Database, rates: Rates) -> None:
        self._db = db
        self._rates = rates
        self._secrets: TtlCache[str, HookSecret] = TtlCache(CACHED_SECONDS)
        self._failures = FailedSignIns(rates)
        self._buckets = Buckets()

    async def find(self, key: str, address: str | None) -> "HookSecret":
        """The hook of a key, within its rate. One that does not exist is NotFound, and counted by address."""

        # Imported here: a command has the same state, and receives no messages.
        from atlas.engine.webhooks.inbound import load_secret

        async def look_up() -> "HookSecret":
            async with self._failures.lookup(address), self._db.connection(within=READ_SECONDS) as conn:
                secret = await load_secret(conn, key)
            if secret is None:
                raise self.refuse(NotFound("hook", key), address)
            return secret

        hook = self._secrets.peek(key) or await self._secrets.get(key, look_up)
        wait = self._buckets.take(hook.id, self._rates.hook, self._rates.hook * self._rates.burst_seconds)
        if wait:
            raise TooManyRequests("to this hook", wait)
        return hook

    def refuse(self, error: AtlasError, address: str | None) -> AtlasError:
        """Count a wrong key or signature, and return the error to raise: this one, or that there were too many."""
        counted = self._failures.count(address)
        return counted if isinstance(counted, TooManyRequests) else error

    def forget(self) -> None:
        """Empty the cache: a hook was removed."""
        self._secrets.forget()
