"""Reads definitions for workers, by SQL: a worker does not import the generated Prisma client."""

from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.engine.commands.definitions import JSON_COLUMNS, Definition, definition_of
from atlas.engine.commands.spec import DefinitionSpec

LOAD = statement("engine/commands/sql/load_definitions.sql")
ACTIVE = statement("engine/commands/sql/active_definition.sql")


async def load_definitions(conn: Queryable) -> list[Definition]:
    """Return all definitions by key, those that are not active too."""
    return [_definition(row) for row in await conn.fetch(LOAD.sql)]


async def load_active_definition(conn: Queryable, key: str, tenant_id: UUID) -> tuple[Definition, str] | None:
    """Return the current definition and the tenant's slug, or None if the definition is not active."""
    row = await conn.fetchrow(ACTIVE.sql, *ACTIVE.bind({"key": key, "tenant_id": tenant_id}))
    return None if row is None else (_definition(row), row["tenant_slug"])


def _definition(row: Any) -> Definition:
    values = {
        name: orjson.loads(row[name]) if name in JSON_COLUMNS else row[name] for name in DefinitionSpec.model_fields
    }
    return definition_of(row["id"], values, row["created_at"], row["updated_at"])
