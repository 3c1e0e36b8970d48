"""Approvals, and the policy rules that require them."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, Document, EditableModel, known

ApprovalStatus: TypeAlias = Literal["pending", "approved", "rejected", "expired", "canceled"]
KnownApprovalStatus: TypeAlias = Annotated[str, known(*get_args(ApprovalStatus))]


class Approval(ApiModel):
    """A request for a person's decision, bound to the exact input it is about."""

    id: UUID
    tenant_id: UUID
    run_id: UUID
    kind: Annotated[str, known("intent", "step")]
    step: str | None
    title: str
    detail: Document
    input_hash: str
    requested_by: str
    status: KnownApprovalStatus
    expires_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    comment: str | None
    created_at: datetime
    subject: Document | None = Field(
        description="Of a review: the workflow's version, the digest of its definition and the rules at the request.",
        examples=[None],
    )
    workflow: str | None = Field(description="The workflow that asks, or is asked for; null once it was deleted.")
    tenant: str | None = Field(default=None, description="The slug of the tenant.")
    version: int | None = Field(default=None, description="The version of the workflow; 0 for one in code.")
    spend_cents: int | None = Field(default=None, description="What the run may spend, by its request.")
    input: Document | None = Field(description="Exactly what is decided about; null once it was deleted.")
    may_decide: bool = Field(description="Whether the caller may decide it now.")

    @property
    def has_ended(self) -> bool:
        """True if it is decided, expired or withdrawn."""
        return self.status != "pending"


class ApprovalSummary(ApiModel):
    """Counts of approvals."""

    pending: int = Field(description="How many approvals wait for a decision.")


class Decided(ApiModel):
    """What was decided."""

    id: UUID
    status: Annotated[str, known("approved", "rejected")]


class PolicyRule(EditableModel):
    """A rule of the policy. Without a tenant it holds for all of them."""

    tagged: ClassVar = (
        *("id", "tenant_id", "label", "effect", "workflow", "except_workflows"),
        *("spend_above_cents", "spend_per_day_cents", "runs_per_day"),
    )

    id: UUID
    tenant_id: UUID | None
    label: str
    effect: Annotated[str, known("allow", "review", "block")]
    workflow: str
    except_workflows: list[str]
    spend_above_cents: int | None
    spend_per_day_cents: int | None
    runs_per_day: int | None
    updated_at: datetime


class PolicyVerdict(ApiModel):
    """What policy would say to a request now."""

    workflow: str
    effect: Annotated[str, known("allow", "review", "block")] = Field(
        description="Whether it would start, wait for a person's approval, or be refused.",
        json_schema_extra={"enum": ["allow", "review", "block"]},
    )
    reason: str
    facts: Document = Field(description="The rule that decides, if one does, and the figures it saw.")
    is_known: bool = Field(description="Whether the workflow is saved, or in the code of a worker.")


class RuleAdded(ApiModel):
    """The id of a new rule."""

    id: UUID
