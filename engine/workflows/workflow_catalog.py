"""The catalog of workflows in code: published by the workers that have them, read by those that do not."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.workflows.registry import CodeWorkflow

PUBLISH = statement("engine/workflows/sql/publish_workflow.sql")
KNOWN = statement("engine/workflows/sql/known_workflows.sql")
CLOCK = statement("engine/workflows/sql/clock.sql")


async def publish_workflows(conn: Connection, workflows: Iterable[CodeWorkflow], *, by: str) -> None:
    """Publish the workflows of this process."""
    for code_workflow in sorted(workflows, key=lambda workflow: workflow.key):
        await fetch(
            conn,
            PUBLISH,
            key=code_workflow.key,
            description=code_workflow.description.split("\n\n")[0],
            input_schema=orjson.dumps(code_workflow.input_schema).decode(),
            created_by=by,
            build=code_workflow.build,
        )


async def known_workflows(conn: Connection, tenant_id: UUID) -> dict[str, bool]:
    """The keys that a tenant can ask for; True for those that a worker with their code published lately."""
    return {row["key"]: row["in_code"] for row in await fetch(conn, KNOWN, tenant_id=tenant_id)}


async def database_now(conn: Connection) -> datetime:
    """The database's clock, the only one that counts."""
    now: datetime = await fetch_value(conn, CLOCK)
    return now
