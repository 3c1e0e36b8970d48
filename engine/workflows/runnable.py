"""Checks a request for a workflow before it is made, for callers who want to hear immediately why it would fail."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.engine.policy.judge import load_disabled
from atlas.engine.schemas import require_fit
from atlas.engine.workflows.find_workflows import list_workflows
from atlas.errors import Refused


async def require_runnable(conn: Connection, tenant_id: UUID, workflow: str, input: Mapping[str, Any]) -> None:
    """Raise Refused for a workflow that is disabled, and InvalidInput for an input that does not fit its schema.

    One that is not known is refused by the request itself, unless that may be unknown. What policy says is not asked:
    a request that a rule blocks is kept.
    """
    page = await list_workflows(conn, tenant_id=tenant_id, key=workflow, limit=1)
    if not page:
        return
    if await load_disabled(conn, [(tenant_id, workflow)]):
        remedy = f"`atlas workflow enable {workflow}` lets it start again."
        raise Refused(f"The workflow {workflow} is disabled.", remedy=remedy)
    is_declared = page[0].kind == "declared"
    require_fit(page[0].input_schema, input, what=f"The input of {workflow}", has_formats=is_declared)
