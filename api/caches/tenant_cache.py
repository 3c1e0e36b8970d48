"""A cache of tenants, by slug and by id."""

from uuid import UUID

from atlas.api.caches.ttl_cache import TtlCache
from atlas.api.db import READ_SECONDS, Database
from atlas.engine.tenants.tenants import find_tenant
from atlas.models.tenants import Tenant

TENANT_SECONDS = 5.0


class TenantCache(TtlCache[str, Tenant]):
    """Tenants as they were at most some seconds ago."""

    def __init__(self, db: Database) -> None:
        super().__init__(TENANT_SECONDS)
        self._db = db

    async def find(self, slug_or_id: str | UUID) -> Tenant:
        """A tenant; NotFound if there is none."""
        key = str(slug_or_id)

        async def look_up() -> Tenant:
            async with self._db.connection(within=READ_SECONDS) as conn:
                return await find_tenant(conn, key)

        return await self.get(key, look_up)
