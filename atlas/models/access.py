"""The access review of a month: who could do what, and who did."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, known


class AccessCredential(ApiModel):
    """What someone could act with in the month."""

    kind: Annotated[str, known("token", "session", "link", "grant", "login")]
    id: str
    subject: str = Field(description="The person or program; `db:LOGIN` for a login of the database.")
    role: str = Field(description="Its role; `enqueue` for a grant, the database role for a login.")
    tenant_id: UUID | None
    scope: str | None = Field(description="What it is narrowed to: the scopes of a token, the job type of a grant.")
    created_at: datetime | None
    created_by: str | None
    ends_at: datetime | None = Field(description="When it expires, or was revoked or ended; null: it has no end.")
    last_used_at: datetime | None = Field(description="Its last use; null: never, or not known of a login.")
    is_dormant: bool = Field(description="True if it is older than the month, still valid, and was not used since.")


class AccessActivity(ApiModel):
    """How often an actor performed one action in the month."""

    actor_type: Annotated[str, known("user", "agent", "system")]
    actor_id: str
    tenant_id: UUID | None
    action: str
    count: int = Field(description="How many rows of the audit log say so.")
    last_at: datetime = Field(description="The time of the last one.")


class AccessReport(ApiModel):
    """Who could do what in a month, who did, and which credentials no one used."""

    month: str = Field(description="The month, such as 2026-11.")
    begins_at: datetime = Field(description="When it begins, in UTC.")
    ends_at: datetime = Field(description="When the next one begins.")
    tenant_id: UUID | None
    credentials: list[AccessCredential] = Field(description="What people and programs could act with.")
    activity: list[AccessActivity] = Field(description="The most frequent first.")
    is_cut: bool = Field(description="True if there is more than the 5,000 of each that are shown.")
