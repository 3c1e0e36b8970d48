"""Prisma's generated, typed client over asyncpg: no Rust engine, no second process, the shared pool."""

from atlas.prisma_client.client import AsyncpgPrisma
from atlas.prisma_client.errors import ConnectionLost, UnsupportedQuery
from atlas.prisma_client.read_schema import load_schema, packaged_schema
from atlas.prisma_client.schema import Default, Enum, Field, Model, Relation, Schema, UniqueKey

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
