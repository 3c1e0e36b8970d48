"""What logins of other applications may enqueue with the SQL function."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel


class EnqueueGrant(ApiModel):
    """A job type of a tenant that a login of the database may enqueue."""

    id: UUID
    login: str = Field(description="The login, as Postgres knows it.")
    tenant_id: UUID
    job_type: str = Field(description="The job type. One that ends with * is for all that begin so.")
    created_by: str
    created_at: datetime


class GrantList(ApiModel):
    """Grants of one login."""

    grants: list[EnqueueGrant]
