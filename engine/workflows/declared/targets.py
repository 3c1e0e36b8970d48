"""What is published about the job types and workflows that the steps of a document start."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias
from uuid import UUID

from atlas.db.pool import Connection
from atlas.engine.admission import load_admission
from atlas.engine.workflows.find_workflows import list_workflows
from atlas.engine.workflows.registry import near
from atlas.engine.workflows.workflow_catalog import known_workflows

# A document has no more steps.
MAX_TARGETS = 200


@dataclass(frozen=True, slots=True)
class StepTarget:
    """A job type or a workflow: whether it is known, names like it if it is not, and the schema of its input."""

    kind: Literal["job type", "workflow"]
    is_known: bool
    near: list[str]
    schema: dict[str, Any]
    has_formats: bool


# By the kind of the step, `job` or `workflow`, and the name that it gives.
Targets: TypeAlias = Mapping[tuple[str, str], StepTarget]


async def load_targets(conn: Connection, tenant_id: UUID, document: Mapping[str, Any]) -> Targets:
    """The targets of a document, which need not be a valid one."""
    named = set(islice(_named(document), MAX_TARGETS))
    workflows = await known_workflows(conn, tenant_id) if any(kind == "workflow" for kind, _ in named) else {}
    return {
        (kind, name): await _job_type(conn, tenant_id, name)
        if kind == "job"
        else await _workflow(conn, tenant_id, name, workflows)
        for kind, name in named
    }


def _named(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    steps = document.get("steps")
    for step in steps if isinstance(steps, list) else ():
        for kind in ("job", "workflow"):
            name = step.get(kind) if isinstance(step, Mapping) else None
            if isinstance(name, str) and "\0" not in name:
                yield kind, name


async def _job_type(conn: Connection, tenant_id: UUID, name: str) -> StepTarget:
    admission = await load_admission(conn, name, tenant_id)
    is_command = admission.definition_id is not None
    return StepTarget(
        "job type", admission.near is None, admission.near or [], admission.schema, has_formats=is_command
    )


async def _workflow(conn: Connection, tenant_id: UUID, key: str, workflows: Mapping[str, bool]) -> StepTarget:
    page = await list_workflows(conn, tenant_id=tenant_id, key=key, limit=1)
    if not page:
        return StepTarget("workflow", is_known=False, near=near(key, workflows), schema={}, has_formats=False)
    return StepTarget("workflow", True, [], page[0].input_schema, has_formats=page[0].kind == "declared")
