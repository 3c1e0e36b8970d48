"""Settings from the environment and `.env`. A wrong value is refused with the name of its variable."""

import os
import re
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Literal

from dotenv import dotenv_values
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from atlas.errors import SettingsError

_WEB_ADDRESS = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[!-~]*)?")
EMAIL_PROVIDERS = ("microsoft", "resend", "smtp", "outbox", "none")


class Settings(BaseSettings):
    """The settings of an installation. Field names are the environment variables in lower case."""

    model_config = SettingsConfigDict(
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        # Secrets that are mounted as files often end with a line break.
        str_strip_whitespace=True,
    )

    database_url: str | None = None
    atlas_owner_url: str | None = None
    # Part of the names of roles and channels, which Postgres cuts at 63 bytes.
    atlas_schema: str = Field(default="atlas", pattern=r"^[a-z][a-z0-9_]{0,47}$")
    atlas_home: Path = Path(".atlas")
    atlas_host: str = "127.0.0.1"
    atlas_port: int = Field(default=8080, ge=0, le=65535)
    atlas_trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...] | None, NoDecode] = None
    # Networks beside the public ones that HTTP_CALL may connect to.
    atlas_http_allowed_networks: Annotated[tuple[IPv4Network | IPv6Network, ...] | None, NoDecode] = None
    atlas_url: str | None = None
    atlas_token: str | None = None
    atlas_operator_token: str | None = None
    atlas_log_level: str = "info"

    atlas_lease_seconds: float = Field(default=30, ge=0.2, le=3600)
    atlas_poll_ms: int = Field(default=1000, ge=10, le=60_000)
    atlas_concurrency: int = Field(default=50, ge=1, le=10_000)
    atlas_batch: int = Field(default=1000, ge=1, le=10_000)
    atlas_grace_seconds: float = Field(default=25, ge=0, le=3600)

    atlas_secret_key_file: Path | None = None
    atlas_audit_key_file: Path | None = None
    atlas_checkpoint_dir: Path | None = None

    outbound_email_provider: Annotated[tuple[str, ...] | None, NoDecode] = None
    outbound_email_from: str | None = None
    resend_api_key: str | None = None
    resend_api_url: str | None = None
    smtp_host: str | None = None
    # Unset: 587 for starttls, 465 for tls, 25 for none.
    smtp_port: int | None = Field(default=None, ge=1, le=65535)
    smtp_tls: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str | None = None
    smtp_password: str | None = None
    smtp_connections: int = Field(default=4, ge=1, le=100)
    smtp_messages_per_minute: int | None = Field(default=None, ge=1, le=100_000)
    ms_tenant_id: str | None = None
    ms_client_id: str | None = None
    ms_client_secret: str | None = None
    ms_sender_upn: str | None = None
    ms_authority_url: str = "https://login.microsoftonline.com"
    ms_graph_url: str = "https://graph.microsoft.com/v1.0"
    # What Exchange allows a mailbox; and a little less than the two a second that Resend allows an account by default,
    # since requests take unequally long to arrive.
    ms_messages_per_minute: int = Field(default=30, ge=1, le=100_000)
    resend_messages_per_minute: int = Field(default=100, ge=1, le=100_000)
    # The senders of AGENT_EMAIL_<AGENT>, by agent.
    agent_emails: dict[str, str] = Field(default_factory=lambda: _agent_emails())

    @field_validator("database_url", "atlas_owner_url")
    @classmethod
    def _is_a_postgres_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("postgres://", "postgresql://")):
            raise ValueError("must start with postgresql://, for example postgresql://user:password@host:5432/atlas")
        return value

    @field_validator("atlas_url", "ms_authority_url", "ms_graph_url", "resend_api_url")
    @classmethod
    def _is_a_web_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://, for example http://127.0.0.1:8080")
        if not _WEB_ADDRESS.fullmatch(value):
            raise ValueError("is not the address of a server, such as https://example.com")
        return value.rstrip("/")

    @field_validator("resend_api_key", "ms_tenant_id", "ms_client_id", "ms_client_secret")
    @classmethod
    def _can_be_sent(cls, value: str | None) -> str | None:
        if value is not None and not (value.isascii() and value.isprintable()):
            raise ValueError("holds a line break, a control character or a letter beyond ASCII")
        return value or None

    @field_validator("atlas_log_level")
    @classmethod
    def _is_a_level(cls, value: str) -> str:
        if value.lower() not in ("debug", "info", "warning", "error"):
            raise ValueError("must be debug, info, warning or error")
        return value.lower()

    @field_validator("atlas_trusted_proxies", "atlas_http_allowed_networks", mode="before")
    @classmethod
    def _are_networks(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return tuple(ip_network(part.strip()) for part in value.split(","))
        except ValueError as error:
            raise ValueError(f"must list addresses or networks, such as 127.0.0.1,10.0.0.0/8 ({error})") from None

    @field_validator("outbound_email_provider", mode="before")
    @classmethod
    def _are_known_providers(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = tuple(name.strip().lower() for name in value.split(",") if name.strip())
        unknown = [name for name in names if name not in EMAIL_PROVIDERS]
        if unknown or not names:
            raise ValueError(f"must list one or more of {', '.join(EMAIL_PROVIDERS)}")
        return names

    @cached_property
    def home(self) -> Path:
        """The folder for everything that is not in the database, as an absolute path."""
        return self.atlas_home.expanduser().resolve()

    @property
    def embedded(self) -> bool:
        """Whether Atlas uses its own Postgres."""
        return self.database_url is None


def _agent_emails() -> dict[str, str]:
    """The variables AGENT_EMAIL_…, from the environment or else from `.env`. Pydantic cannot read names by prefix."""
    prefix = "AGENT_EMAIL_"
    found = {**dotenv_values(".env"), **os.environ}
    return {
        name.upper().removeprefix(prefix): value.strip()
        for name, value in found.items()
        if name.upper().startswith(prefix) and value and value.strip()
    }


def load_settings(**overrides: object) -> Settings:
    """Read the settings. Raises SettingsError with the variable that is wrong."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        first = error.errors()[0]
        variable = str(first["loc"][0]).upper() if first["loc"] else "settings"
        shown = "" if re.search("SECRET|KEY|URL|PASSWORD", variable) else f" = {first['input']!r}"
        reason = first["msg"].removeprefix("Value error, ")
        reason = reason[0].lower() + reason[1:]
        raise SettingsError(
            f"{variable}{shown} cannot be used: {reason}.",
            remedy=f"Correct {variable} in the environment or in .env, or unset it.",
        ) from None
