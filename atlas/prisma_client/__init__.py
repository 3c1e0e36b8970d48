"""Prisma's generated, typed client over asyncpg: no Rust engine, no second process, the shared pool."""

from atlas.db.generated_prisma import prepare_import

prepare_import()  # before the modules below import it

from atlas.prisma_client.client import AsyncpgPrisma  # noqa: E402
from atlas.prisma_client.errors import ConnectionLost, UnsupportedQuery  # noqa: E402
from atlas.prisma_client.schema import (  # noqa: E402
    Default,
    Enum,
    Field,
    Model,
    Relation,
    Schema,
    UniqueKey,
    load_schema,
    packaged_schema,
)

__all__ = [
    "AsyncpgPrisma",
    "ConnectionLost",
    "Default",
    "Enum",
    "Field",
    "Model",
    "Relation",
    "Schema",
    "UniqueKey",
    "UnsupportedQuery",
    "load_schema",
    "packaged_schema",
]
