"""What a trigger starts: that it may, and that its template can fit the input of its target."""

from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.commands.definitions import find_definition
from atlas.engine.jobs.handlers.type_catalog import kept_secrets
from atlas.engine.schemas import template_errors
from atlas.engine.templates import is_constant
from atlas.engine.triggers.spec import TriggerSpec
from atlas.errors import FieldError, InvalidInput

SCHEMA = statement("engine/triggers/sql/target_schema.sql")

FIELD = "payload_template"


async def check_target(conn: Connection, tenant_id: UUID, spec: TriggerSpec) -> None:
    """Refuse a target that is not allowed, and a template that no event or time could make fit.

    A job type or a workflow may be published later. A definition is a permission and must exist.
    """
    if spec.definition_key is not None:
        await find_definition(conn, spec.definition_key)
    job_type = spec.job_type or spec.definition_key
    wrong = [] if job_type is None else await kept_secrets(conn, job_type, spec.payload_template, path=FIELD)
    wrong = wrong or await _misfits(conn, tenant_id, spec)
    if wrong:
        raise InvalidInput("The trigger", wrong)


async def _misfits(conn: Connection, tenant_id: UUID, spec: TriggerSpec) -> list[FieldError]:
    job_type = spec.job_type or spec.definition_key
    row = await fetch_row(conn, SCHEMA, job_type=job_type, workflow=spec.workflow, tenant_id=tenant_id)
    if row is None:
        return []
    errors = template_errors(
        orjson.loads(row["input_schema"]), spec.payload_template, is_constant, has_formats=row["has_formats"]
    )
    reason = f"so it can never fit {job_type or spec.workflow}"
    return [FieldError(".".join(filter(None, [FIELD, error.field])), f"{error.reason}, {reason}") for error in errors]
