"""Prisma's generated, typed client over asyncpg: no Rust engine, no second process, the shared pool."""

from atlas.prisma_client.client import AsyncpgPrisma
from atlas.prisma_client.errors import ConnectionLost, UnsupportedQuery
from atlas.prisma_client.schema import (
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
