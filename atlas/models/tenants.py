"""Tenants, the tokens of people and programs, and who is signed in."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, Document, known

RoleName: TypeAlias = Literal["operator", "tenant_admin", "enqueuer", "auditor", "host", "worker"]
KnownRole: TypeAlias = Annotated[str, known(*get_args(RoleName))]


class TenantShown(ApiModel):
    """A customer."""

    id: UUID
    slug: str
    name: str
    timezone: str
    limits: Document
    retention: Document
    retention_days: dict[str, float | None] = Field(
        description="The days that hold for each kind: the tenant's own, else the defaults; null is for ever."
    )
    created_at: datetime
    updated_at: datetime
    removing_at: datetime | None
    moving_at: datetime | None
    moving_to: str | None


class TenantRemoval(ApiModel):
    """How far the removal of a tenant has come."""

    id: UUID
    slug: str
    removing_at: datetime
    is_removed: bool
    last_step: str | None
    rows: dict[str, int]


class TokenShown(ApiModel):
    """A credential without its secret."""

    id: UUID
    prefix: str
    subject: str
    role: KnownRole
    tenant_id: UUID | None
    scopes: Document
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    created_by: str


class TokenMade(TokenShown):
    """A new credential, with its clear text, which is not shown again."""

    token: str


class RevokedToken(TokenShown):
    """A revoked credential, and those that were revoked with it."""

    created: list[TokenShown] = Field(description="The tokens that were created with it and were revoked too.")


class SessionShown(ApiModel):
    """Who is signed in. Every change that a page sends needs the `csrf_token` in the header X-CSRF-Token."""

    subject: str
    role: KnownRole
    tenant_id: UUID | None
    tenant: str | None = Field(description="The tenant's slug; null for those who see all.")
    csrf_token: str | None
    expires_at: datetime | None


class OpenSessionShown(ApiModel):
    """A session that is valid now."""

    id: UUID
    subject: str
    role: KnownRole
    tenant_id: UUID | None
    token_id: UUID
    prefix: str
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    is_current: bool = Field(description="True for the session that asks.")
