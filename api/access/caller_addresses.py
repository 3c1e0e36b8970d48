"""The addresses of callers as the audit log holds them: as commitments, so that they can be erased.

A caller makes many events. They share the commitment of its address, which is stored once and replaced after an hour,
so that a request does not pay for it. An address that was erased is stored anew after that time if it calls again.
"""

from uuid import UUID

from atlas.api.caches.ttl_cache import TtlCache
from atlas.api.db import Database
from atlas.audit.personal_data import commit_address

REPLACED_SECONDS = 3600.0


class CallerAddresses:
    """The commitments of one process, by tenant and address."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._commitments: TtlCache[tuple[UUID | None, str], str] = TtlCache(REPLACED_SECONDS)

    async def commitment(self, tenant_id: UUID | None, address: str | None) -> str | None:
        """The commitment of an address, stored before it is returned; None for no address."""
        if address is None:
            return None

        async def store() -> str:
            async with self._db.connection() as conn:
                return await commit_address(conn, address, tenant_id=tenant_id)

        return await self._commitments.get((tenant_id, address), store)
