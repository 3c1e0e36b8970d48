"""The typed client on a connection that is already held: `prisma_on(conn).tenant.find_unique(where={"slug": "acme"})`.

A call is one statement of the caller's transaction: it has the role and the settings of that transaction, so row-level
security holds for it, and it commits with the audit row beside it. Errors of the database are asyncpg's, as for every
other statement there.

Importing Prisma's generated code takes longer than most commands run. So the first call imports it, not this module;
programs that serve requests call `load_client` while they start.
"""

from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from atlas.db.pool import Queryable
from atlas.errors import AtlasError
from atlas.models.rows import prisma_name
from atlas.source import setup_command

if TYPE_CHECKING:
    from atlas.generated import Base64, Json
    from atlas.prisma_client import AsyncpgPrisma


class ClientNotGenerated(AtlasError):
    """The typed client was not generated from `schema.prisma`."""


@cache
def load_client() -> "type[AsyncpgPrisma]":
    """Import the generated code."""
    try:
        from atlas.prisma_client import AsyncpgPrisma
    except (ImportError, RuntimeError) as error:  # Prisma raises either, by the name that is missing
        raise ClientNotGenerated(
            f"The Prisma client cannot be imported: {error}.",
            remedy=f"Run `{setup_command()}`.",
        ) from error
    return AsyncpgPrisma


def prisma_on(conn: Queryable) -> "AsyncpgPrisma":
    """The typed client on this connection. Making one costs a few microseconds; there is nothing to close.

    On a pool, every call borrows a connection: for reads that need no transaction.
    """
    return load_client().on(conn, native_errors=True)


def as_json(value: Any) -> "Json":
    """A value of a Json field, as calls take it. Read, such a field is the value itself."""
    load_client()
    from atlas.generated import Json

    return Json(value)


def as_base64(value: bytes) -> "Base64":
    """A value of a Bytes field, as calls take it. Read, such a field has `decode()`."""
    load_client()
    from atlas.generated import Base64

    return Base64.encode(value)


def page_filter(
    *,
    tenant_id: UUID | None,
    id: UUID | None = None,
    after: UUID | None = None,
    before: UUID | None = None,
    **columns: Any,
) -> Any:
    """The filter of a page: of one tenant or all, by the columns that have a value, of one id, or after or before one.

    It is Any, because each model has a type of its own for the same filter.
    """
    bounds = {operator: str(value) for operator, value in (("equals", id), ("gt", after), ("lt", before)) if value}
    values = {"tenant_id": tenant_id, "id": bounds or None, **columns}
    return data_of(**{name: value for name, value in values.items() if value is not None})


def data_of(**columns: Any) -> Any:
    """What a row is created or found with: values by their columns. It is Any, as the filter of a page is."""
    return {prisma_name(name): _value(value) for name, value in columns.items()}


def older_than(column: str, position: tuple[datetime, UUID] | None) -> dict[str, Any]:
    """The filter of a page, newest first, that follows a row of this time and id."""
    if position is None:
        return {}
    time, id = position
    # The first is a bound for the index.
    return {"AND": [{column: {"lte": time}}], "OR": [{column: {"lt": time}}, {"id": {"lt": str(id)}}]}


def _value(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value
