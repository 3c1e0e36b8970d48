"""What a request for a job becomes: a job, or, for a workflow, an intent."""

import re
from datetime import timedelta
from typing import Annotated, TypeAlias

from pydantic import Field, StringConstraints, ValidationError

from atlas.api.models.common import Body, Document, Whole
from atlas.api.models.jobs import NewJobBody
from atlas.api.problems import fields_of
from atlas.api.request_context import RequestContext
from atlas.engine.jobs import NewJob
from atlas.engine.workflows.intents import NewIntent
from atlas.errors import FieldError, InvalidInput

Start: TypeAlias = NewJob | NewIntent

ENGINE_RUN = "ENGINE_RUN"
# As the description says of the header.
_CORRELATION = re.compile(r"[!-~]{1,200}")


class EngineRunPayload(Body):
    """The payload of a job of type ENGINE_RUN."""

    workflow: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    input: Document = Field(default_factory=dict)
    spend_cents: Whole = Field(default=0, ge=0, le=2_000_000_000)


def start_of(body: NewJobBody, call: RequestContext, correlation_id: str | None) -> Start:
    """The job or the intent that a body asks for. The header's correlation id serves where the body has none."""
    if correlation_id is not None and not _CORRELATION.fullmatch(correlation_id):
        raise InvalidInput(
            "The request",
            [FieldError("header.X-Correlation-Id", "must be 1 to 200 visible ASCII characters without spaces")],
        )
    correlation = body.correlation_id or correlation_id
    if body.job_type == ENGINE_RUN:
        return _intent_of(body, correlation)
    return NewJob(
        body.kind,
        body.payload,
        call.home,
        body.priority or None,
        None if body.delay_seconds is None else timedelta(seconds=body.delay_seconds),
        body.scheduled_for,
        body.max_retries,
        body.dedupe_key,
        correlation,
        timeout_seconds=body.timeout_seconds,
        host_id=body.host_id,
        server_instance_id=body.server_instance_id,
    )


def _intent_of(body: NewJobBody, correlation_id: str | None) -> NewIntent:
    unfit = (
        "scheduled_for",
        "delay_seconds",
        "dedupe_key",
        "max_retries",
        "timeout_seconds",
        "host_id",
        "server_instance_id",
    )
    wrong = [FieldError(name, "does not apply to a workflow") for name in unfit if getattr(body, name) is not None]
    if wrong:
        raise InvalidInput("The job", wrong)
    try:
        asked = EngineRunPayload.model_validate(body.payload)
    except ValidationError as error:
        found = fields_of(error.errors(include_input=False, include_url=False))
        raise InvalidInput("The payload", [FieldError(f"payload.{one.field}", one.reason) for one in found]) from None
    return NewIntent(
        asked.workflow,
        asked.input,
        priority=body.priority,
        spend_cents=asked.spend_cents,
        correlation_id=correlation_id,
    )
