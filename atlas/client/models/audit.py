"""The audit log: its rows, its seals and checkpoints, and what verifying it found."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from atlas.client.models.base import ApiModel, Document, known


class EntryShown(ApiModel):
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


class SealShown(ApiModel):
    """A batch of rows that became leaves of the tree, and the tree's root after it."""

    n: int
    epoch: int
    first_index: int
    count: int
    size: int
    sealed_at: datetime
    root: str


class CheckpointShown(ApiModel):
    """The tree's size and root, signed; anyone with the public key can check it."""

    size: int
    key_name: str
    epoch: int
    signed_at: datetime
    note: str


class VerificationShown(ApiModel):
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
