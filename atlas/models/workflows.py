"""Workflows, the requests for them, their runs and the events that these wait for."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from atlas.models.approvals import KnownApprovalStatus
from atlas.models.base import ApiModel, Document, EditableModel, ProblemField, known
from atlas.models.jobs import JobSource

RunStatus: TypeAlias = Literal["queued", "waiting", "running", "succeeded", "failed", "canceled"]
IntentStatus: TypeAlias = Literal[
    "draft", "validating", "queued", "executed", "failed", "blocked", "awaiting_human", "rejected"
]
KnownRunStatus: TypeAlias = Annotated[str, known(*get_args(RunStatus))]
KnownIntentStatus: TypeAlias = Annotated[str, known(*get_args(IntentStatus))]
StoredStatus: TypeAlias = Annotated[str, known("queued", "running", "succeeded", "failed", "canceled")]
StepKind: TypeAlias = Annotated[
    str, known("step", "job", "child", "sleep", "event", "approval", "value", "failure", "undo")
]
StepStatus: TypeAlias = Annotated[str, known("waiting", "retrying", "succeeded", "failed")]


class Workflow(EditableModel):
    """A workflow: a declared one in its newest version, or (version 0) one in a worker's code."""

    # A new version is an edit too.
    tagged: ClassVar = ("id", "is_enabled")

    id: UUID
    tenant_id: UUID | None
    key: str
    version: int
    kind: Annotated[str, known("code", "declared")]
    description: str
    input_schema: Document
    document: Document | None
    is_enabled: bool
    created_by: str
    created_at: datetime
    updated_at: datetime
    last_seen_at: datetime


class SavedWorkflow(ApiModel):
    """The version that holds the document; `is_new` is false if the newest one held it already."""

    id: UUID
    key: str
    version: int
    is_new: bool
    updated_at: datetime


class Checked(ApiModel):
    """Every error of a document; none if it can be saved."""

    ok: bool
    errors: list[ProblemField]


class WorkflowSchema(ApiModel):
    """What an editor of declared workflows needs to know."""

    document_schema: Document = Field(description="JSON Schema of a declared workflow.")
    template_filters: list[str] = Field(description="The filters that expressions in templates may use.")
    template_tests: list[str] = Field(description="The tests that expressions may use after `is`.")


class DryStep(ApiModel):
    """What would become of a step."""

    id: str = Field(description="The step's id in the document.")
    kind: Annotated[str, known("job", "workflow", "sleep", "event", "approval")]
    target: Any = Field(description="The job type, the workflow, the event, the duration or the question.")
    decision: Annotated[str, known("runs", "depends", "skipped", "fails", "unreached")] = Field(
        description="`depends`: outputs that are not known decide; `unreached`: a step before it would fail.",
        json_schema_extra={"enum": ["runs", "depends", "skipped", "fails", "unreached"]},
    )
    reason: str
    items: int | None = Field(
        description="How many items its `each` has; null without `each`, or where it is not known."
    )
    inputs: list[Any] = Field(description="Its `with`, filled in: one, or one for each of the first 10 items.")
    pending: list[ProblemField] = Field(description="What stays as it is written, because it reads what is not known.")
    errors: list[ProblemField] = Field(description="Why the run would fail here.")
    warnings: list[ProblemField] = Field(description="What would keep the step waiting.")


class DryRun(ApiModel):
    """What a run of a document would do, as far as that is known before it."""

    ok: bool = Field(description="False if the document or the input is refused, or a step would fail.")
    errors: list[ProblemField] = Field(description="What is wrong with the document, the input or the given outputs.")
    steps: list[DryStep] = Field(description="Its steps in the order of the document; none if there are errors.")
    output: Any = Field(description="What the run would return, as far as it is known.")
    pending: list[ProblemField] = Field(description="What of the output stays as it is written.")
    is_shortened: bool = Field(description="True if inputs are left out, because all of them are over 1 MiB.")


class RunCounts(ApiModel):
    """How the newest runs of one version of a workflow went."""

    workflow: str
    version: int
    total: int = Field(description="How many of the newest runs are of it.")
    active: int = Field(description="Those that have not ended.")
    succeeded: int = Field(description="Those that succeeded.")
    failed: int = Field(description="Those that failed.")
    canceled: int = Field(description="Those that were canceled.")
    last_created_at: datetime = Field(description="When the newest of them was created.")


class Intent(ApiModel):
    """A request for a workflow, in its present state."""

    id: UUID
    tenant_id: UUID
    workflow: str
    input: Document
    input_hash: str
    status: KnownIntentStatus
    reason: str | None
    decision: Document
    spend_cents: int
    priority: int
    source: JobSource
    source_ref: str | None
    correlation_id: str | None
    requested_by: str
    forked_from: UUID | None
    forked_step: str | None
    queued_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def never_runs(self) -> bool:
        """True if it has ended and no run came of it."""
        return self.status in ("failed", "blocked", "rejected")


class RunId(ApiModel):
    """The id of the intent, and of the run that it becomes."""

    id: UUID


class WorkflowRun(ApiModel):
    """A run, in its present state. `waiting`: it sleeps until a time, or waits for an event."""

    id: UUID
    tenant_id: UUID
    workflow: str
    version: int
    status: KnownRunStatus
    requested_by: str
    parent_run_id: UUID | None
    forked_from: UUID | None
    created_at: datetime
    input: Document
    output: Any = Field(description="What the workflow returned, as JSON; an empty object if it returned nothing.")
    error: Document
    attempt_count: int
    claimed_by: str | None
    correlation_id: str | None
    source: JobSource
    source_ref: str | None
    wakes_at: datetime | None
    cancel_requested_at: datetime | None
    finished_at: datetime | None
    approval_expires_at: datetime | None = Field(
        default=None, description="When the approval that it waits for expires; null if it waits for none."
    )

    @property
    def has_ended(self) -> bool:
        """True if it will not go on by itself."""
        return self.status in ("succeeded", "failed", "canceled")


class ListedStep(ApiModel):
    """A recorded step without its input and output. `key` names it in its run, for a fork."""

    key: str
    branch: str
    position: int
    name: str
    kind: StepKind
    status: StepStatus
    attempts: int
    started_at: datetime
    finished_at: datetime | None
    wake_at: datetime | None
    waits_for: str | None
    child_id: UUID | None
    child_status: StoredStatus | None
    child_name: str | None = Field(description="The type of its job, or the workflow of its run.")
    approval_id: UUID | None
    approval_status: KnownApprovalStatus | None
    decided_by: str | None
    event_name: str | None
    event_match: Document | None
    error: Document | None


class RunStep(ListedStep):
    """A recorded step, whole."""

    input: Any
    output: Any


class Stopped(ApiModel):
    """`canceled` immediately, `requested` of the worker that executes it, or `rejected` before it became a run."""

    id: UUID
    verdict: Annotated[str, known("canceled", "requested", "rejected")]


class Signaled(ApiModel):
    """The event, and whether it woke the run. A run that is not waiting yet finds the event when it waits."""

    id: UUID
    woken: int


class EventRecord(ApiModel):
    """An event. `handled_at`: when the triggers on its name were looked at; a signal to one run has none."""

    id: UUID
    tenant_id: UUID
    name: str
    context: Document
    run_id: UUID | None = Field(description="The one run that it was sent to; null for every run and trigger.")
    correlation_id: str | None
    created_by: str
    created_at: datetime
    handled_at: datetime | None


class EventPublished(ApiModel):
    """An event that is stored, and how many waiting runs it woke."""

    id: UUID
    woken: int
