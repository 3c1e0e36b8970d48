"""Tenants as people name them: by slug or id in options, by slug in what is shown."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, overload
from uuid import UUID

from pydantic import BaseModel

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import no_tenant
from atlas.ids import as_id

NAMED = statement("cli/access/sql/tenants_named.sql")


@overload
async def tenant_id(conn: Connection, named: str) -> UUID: ...


@overload
async def tenant_id(conn: Connection, named: str | None) -> UUID | None: ...


async def tenant_id(conn: Connection, named: str | None) -> UUID | None:
    """The id of the tenant of this slug or id, or None if no tenant was named."""
    if named is None:
        return None
    id = as_id(named)
    row = await fetch_row(conn, NAMED, ids=[] if id is None else [id], slugs=[named] if id is None else [])
    if row is None:
        raise no_tenant(named)
    owner: UUID = row["id"]
    return owner


class TenantNames:
    """The slugs of some tenants."""

    def __init__(self, slugs: Mapping[str, str]) -> None:
        self._slugs = slugs

    def slug(self, tenant_id: UUID | str | None) -> str | None:
        """A tenant's slug; its id if it was removed, and None for what belongs to none."""
        return None if tenant_id is None else self._slugs.get(str(tenant_id), str(tenant_id))

    def document(self, row: Any) -> dict[str, Any]:
        """A row, or a document, as a document with the slug of the tenant whose id it has."""
        document = row if isinstance(row, Mapping) else dict(row) if isinstance(row, BaseModel) else asdict(row)
        return {**document, "tenant": self.slug(document["tenant_id"])}


async def names_of(conn: Connection, rows: Iterable[Any]) -> TenantNames:
    """The slugs of the tenants that rows or documents belong to."""
    ids = {row["tenant_id"] if isinstance(row, Mapping) else row.tenant_id for row in rows} - {None}
    stored = await fetch(conn, NAMED, ids=[UUID(str(id)) for id in ids], slugs=[]) if ids else []
    return TenantNames({str(row["id"]): row["slug"] for row in stored})
