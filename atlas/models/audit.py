"""The audit log: its rows, its seals and checkpoints, and what verifying it found."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, Document, known


class AuditEntry(ApiModel):
    """One row of the audit log."""

    id: int
    created_at: datetime
    tenant_id: UUID | None
    actor_type: Annotated[str, known("user", "agent", "system")]
    actor_id: str
    level: Annotated[str, known("info", "warn", "error")]
    action: str
    entity_type: str
    entity_id: str
    message: str
    meta: Document
    seal: int | None = Field(description="The number of the seal that it is in; null before it is sealed.")


class EntryDetails(AuditEntry):
    """One row of the audit log, and where it is in the tree."""

    index: int | None = Field(description="Its place among the leaves of the tree, from 0; null before it is sealed.")


class NewEntries(ApiModel):
    """What was recorded since a place, in the order in which it will be sealed, and the place to continue from."""

    items: list[AuditEntry]
    place: str
    is_cut: bool = Field(description="True if too much was recorded, or too long ago: read the first page again.")


class AuditSeal(ApiModel):
    """A batch of rows that became leaves of the tree, and the tree's root after it."""

    n: int
    epoch: int
    first_index: int
    count: int
    size: int
    sealed_at: datetime
    root: str
    rows: int = Field(description="How many rows it has, of the tenant where one is meant.")


class AuditCheckpoint(ApiModel):
    """The tree's size and root, signed; anyone with the public key can check it."""

    size: int
    key_name: str
    epoch: int
    signed_at: datetime
    note: str


class AuditVerification(ApiModel):
    """The progress of a verification, and what it found. `lost`: the process that ran it is gone."""

    id: UUID
    status: Annotated[str, known("running", "whole", "damaged", "failed", "lost")]
    done: int
    total: int
    started_by: str
    updated_at: datetime
    findings: list[dict[str, Any]]
    notices: list[str]
    report: dict[str, Any]

    @property
    def has_ended(self) -> bool:
        """True if it is over, however it ended."""
        return self.status != "running"


class VerificationResult(ApiModel):
    """How the last verification of the whole audit log ended."""

    status: Annotated[str, known("whole", "damaged")]
    verified_at: datetime
    size: int


class SealStatus(ApiModel):
    """How far the audit log is sealed, of the caller's rows."""

    unsealed: int = Field(description="Rows without a seal, 10,000 at most.")
    lag_seconds: float = Field(description="How long the oldest of them has waited, in seconds.")
    sealed_at: datetime | None = Field(description="When rows were sealed last.")
    signed_at: datetime | None = Field(description="When the tree's head was signed last.")


class AuditStatus(ApiModel):
    """How far the audit log is sealed, signed and verified."""

    seal: int | None
    size: int
    sealed_at: datetime | None
    signed_size: int | None
    signed_at: datetime | None
    unsealed: int
    lag_seconds: float
    verified: VerificationResult | None
