"""The mail settings of a tenant: the part `email` of its limits."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from atlas.workers.email.addresses import parse_address

ProviderName = Literal["microsoft", "resend", "smtp", "outbox", "none"]


class TenantEmailSettings(BaseModel):
    """How a tenant's mails are sent; what is not set is the installation's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    providers: tuple[ProviderName, ...] | None = Field(default=None, min_length=1)
    sender: str | None = Field(default=None, alias="from")
    agents: tuple[str, ...] | None = None
    per_minute: int | None = Field(default=None, ge=1, le=100_000)

    @field_validator("sender")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None:
            parse_address(value)
        return value
