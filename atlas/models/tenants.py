"""Tenants, the tokens of people and programs, and who is signed in."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, Document, EditableModel, known

Role: TypeAlias = Literal["operator", "tenant_admin", "enqueuer", "auditor", "host", "worker"]
KnownRole: TypeAlias = Annotated[str, known(*get_args(Role))]


class Tenant(EditableModel):
    """A customer, under the short name that commands and addresses use."""

    tagged: ClassVar = ("id", "name", "timezone", "limits", "retention")

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


class Token(ApiModel):
    """A credential without its secret. `subject` is the person or program that acts with it."""

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


class CreatedToken(Token):
    """A new credential, with its clear text, which is not shown again."""

    token: str


class RevokedToken(Token):
    """A revoked credential, and those that were revoked with it."""

    created: list[Token] = Field(description="The tokens that were created with it and were revoked too.")
    hooks: list[UUID] = Field(
        default_factory=list,
        description="The inbound hooks whose secrets these tokens knew. They accept nothing until they are rotated.",
    )


class CurrentSession(ApiModel):
    """Who is signed in. Every change that a page sends needs the `csrf_token` in the header X-CSRF-Token."""

    subject: str
    role: KnownRole
    tenant_id: UUID | None
    tenant: str | None = Field(description="The tenant's slug; null for those who see all.")
    csrf_token: str | None
    expires_at: datetime | None
    currency: str = Field(description="What costs are counted in cents of: a code of ISO 4217.")


class OpenSession(ApiModel):
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
    address: str | None = Field(description="The network address that signed in; null once it is erased or pruned.")
    browser: str | None = Field(description="Such as `Firefox 131 on Linux`; null for programs.")
