"""Bodies of requests about jobs, what they ask for, and a row of the queue as a response."""

import re
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, TypeAlias
from uuid import UUID

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, StringConstraints, ValidationError, model_validator
from pydantic_core import CoreSchema

from atlas.api.field_errors import fields_of
from atlas.api.models.common import Body, Document, Id, Number, Timestamp, Whole
from atlas.bounds import MAX_RETRIES
from atlas.engine.jobs.lists.find import JobRow
from atlas.engine.jobs.new_jobs.new_job import MAX_DELAY, NewJob
from atlas.engine.synonyms import ONE_MORE, by_own_names, synonyms_of
from atlas.engine.workflows.intents import NewIntent
from atlas.errors import FieldError, InvalidInput
from atlas.models.jobs import Job, ListedJob

JobSource = Literal["manual", "event", "schedule", "workflow", "system"]
JobTypeName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
MAX_JOBS = 1000
ENGINE_RUN = "ENGINE_RUN"
# As the OpenAPI description says of the header.
_CORRELATION = re.compile(r"[!-~]{1,200}")

# What a request for a job asks for: a job, or, for a workflow, an intent.
Start: TypeAlias = NewJob | NewIntent


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


class SynonymBody(Body):
    """A body whose fields may be sent under other names, those of `engine/synonyms.py`."""

    own_names: ClassVar[frozenset[str]] = frozenset()
    synonyms: ClassVar[dict[str, str]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        cls.own_names, cls.synonyms = frozenset(cls.model_fields), synonyms_of(cls.model_fields, cls.__name__)

    @model_validator(mode="before")
    @classmethod
    def _take_synonyms(cls, value: Any) -> Any:
        if not isinstance(value, dict) or cls.own_names.issuperset(value):
            return value
        return by_own_names(value, cls.synonyms)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The description with each synonym as a property of its own, which is deprecated."""
        reference = handler(core_schema)
        properties = handler.resolve_ref_schema(reference)["properties"]
        for name, field in cls.synonyms.items():
            properties[name] = synonym_of(field, name, properties[field])
        return reference


def synonym_of(field: str, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a synonym: that of its field, or one more."""
    counted = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_RETRIES + 1}, {"type": "null"}]}
    field_schema = (
        counted if name in ONE_MORE else {key: schema[key] for key in schema if key not in ("title", "default")}
    )
    about = f"`{field}`, counting the first attempt too." if name in ONE_MORE else f"A synonym of `{field}`."
    return {**field_schema, "description": about, "deprecated": True}


class NewJobBody(SynonymBody):
    """A job to enqueue. Name its `job_type`, or the `definition_key` of an allow-listed command."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [name]}
                for field in ("job_type", "definition_key")
                for name in (field, *synonyms_of([field]))
            ],
            "examples": [
                {
                    "job_type": "EMAIL_SEND",
                    "payload": {"to": "ann@example.com", "subject": "Hello", "text": "It works."},
                    "priority": 5,
                    "dedupe_key": "welcome:ann",
                },
                {"definition_key": "backup.run", "payload": {"database": "crm"}},
            ],
        }
    )

    # Exactly one of the two is sent; the other stays empty, which no caller can send.
    job_type: JobTypeName = Field(default="", json_schema_extra=_without_default)
    definition_key: JobTypeName = Field(default="", json_schema_extra=_without_default)
    payload: Document = Field(default_factory=dict, description="The job's input: a JSON object under its own names.")
    priority: Annotated[Whole, Field(ge=-1_000_000, le=1_000_000)] = Field(default=0, description="Higher goes first.")
    scheduled_for: Timestamp | None = Field(default=None, description="Not before this time; now if left out.")
    delay_seconds: Annotated[Number, Field(ge=0, le=int(MAX_DELAY.total_seconds()))] | None = Field(
        default=None, description="Not before so long from now, by the database's clock; instead of `scheduled_for`."
    )
    dedupe_key: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = Field(
        default=None, description="An active job under the same key is returned instead of a new one."
    )
    max_retries: Annotated[Whole, Field(ge=0, le=MAX_RETRIES)] | None = None
    correlation_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="Carried to the handler's log lines; the header X-Correlation-Id if left out."
    )
    timeout_seconds: Annotated[Whole, Field(ge=1, le=7 * 86_400)] | None = None
    start_by: Timestamp | None = Field(
        default=None, description="If it has not started by then, it is canceled as expired."
    )
    expires_in_seconds: Annotated[Number, Field(gt=0, le=int(MAX_DELAY.total_seconds()))] | None = Field(
        default=None, description="The same as a time from now, by the database's clock; instead of `start_by`."
    )
    finish_by: Timestamp | None = Field(default=None, description="Its attempts and its retries end by then.")
    host_id: Id | None = Field(default=None, description="Only this host may run it.")
    server_instance_id: Id | None = Field(default=None, description="The server it is about; its host runs it.")
    allow_unknown: bool = Field(default=False, description="Accept a job type or workflow that is not published yet.")

    @model_validator(mode="after")
    def _names_one_kind(self) -> "NewJobBody":
        if bool(self.job_type) == bool(self.definition_key):
            raise ValueError("name either job_type or definition_key")
        if self.scheduled_for is not None and self.delay_seconds is not None:
            raise ValueError("give either scheduled_for or delay_seconds")
        if self.start_by is not None and self.expires_in_seconds is not None:
            raise ValueError("give either start_by or expires_in_seconds")
        return self

    @property
    def kind(self) -> str:
        """The job type, which is the key of its definition where it has one."""
        return self.job_type or self.definition_key


class EngineRunPayload(Body):
    """The payload of a job of type ENGINE_RUN."""

    workflow: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    input: Document = Field(default_factory=dict)
    spend_cents: Whole = Field(default=0, ge=0, le=2_000_000_000)


def start_of(body: NewJobBody, tenant_id: UUID, correlation_id: str | None) -> Start:
    """The job or the intent that a body asks for. The header's correlation id is used where the body has none."""
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
        tenant_id,
        body.priority or None,
        None if body.delay_seconds is None else timedelta(seconds=body.delay_seconds),
        body.scheduled_for,
        body.max_retries,
        body.dedupe_key,
        correlation,
        timeout_seconds=body.timeout_seconds,
        host_id=body.host_id,
        server_instance_id=body.server_instance_id,
        start_by=body.start_by,
        expires_in=None if body.expires_in_seconds is None else timedelta(seconds=body.expires_in_seconds),
        finish_by=body.finish_by,
        # A definition that does not exist is refused as one.
        allow_unknown=body.allow_unknown or bool(body.definition_key),
    )


def _intent_of(body: NewJobBody, correlation_id: str | None) -> NewIntent:
    unfit = (
        "scheduled_for",
        "delay_seconds",
        "dedupe_key",
        "max_retries",
        "timeout_seconds",
        "start_by",
        "expires_in_seconds",
        "finish_by",
        "host_id",
        "server_instance_id",
    )
    wrong = [FieldError(name, "does not apply to a workflow") for name in unfit if getattr(body, name) is not None]
    if wrong:
        raise InvalidInput("The job", wrong)
    try:
        asked = EngineRunPayload.model_validate(body.payload)
    except ValidationError as error:
        problems = fields_of(error.errors(include_input=False, include_url=False), EngineRunPayload)
        raise InvalidInput(
            "The payload", [FieldError(f"payload.{problem.field}", problem.reason) for problem in problems]
        ) from None
    return NewIntent(
        asked.workflow,
        asked.input,
        priority=body.priority,
        spend_cents=asked.spend_cents,
        correlation_id=correlation_id,
        allow_unknown=body.allow_unknown,
    )


def job_of(row: JobRow) -> Job:
    """A row of the queue under the API's names."""
    return Job.model_construct(**_values_of(row, _SAME_NAMES), payload=row.input)


def listed_job_of(row: JobRow) -> ListedJob:
    """The same without its payload and output."""
    return ListedJob.model_construct(**_values_of(row, _LISTED_NAMES))


def _values_of(row: JobRow, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in names},
        "status": row.shown_status,
        "definition_key": row.job_type if row.definition_id is not None else None,
        "queued_at": row.created_at,
    }


_SAME_NAMES = tuple(name for name in Job.model_fields if name != "status" and name in JobRow.__slots__)
_LISTED_NAMES = tuple(name for name in _SAME_NAMES if name in ListedJob.model_fields)
