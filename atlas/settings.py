"""Settings from the environment and `.env`. A wrong value is refused with the name of its variable.

They are a plain class: every command reads them, and a model of pydantic would take a tenth of its time to be made.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal

from atlas.errors import SettingsError
from atlas.programs.argv import program_problem

_WEB_ADDRESS = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[!-~]*)?")
# Part of the names of roles and channels, which Postgres cuts at 63 bytes.
_SCHEMA = re.compile(r"[a-z][a-z0-9_]{0,47}")
_LOOPBACK = re.compile(r"http://(127\.|localhost[:/]|localhost$|\[::1\])")
_BUCKET = re.compile(r"//[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9._/-]*)?")
_SECRET = re.compile("SECRET|KEY|URL|PASSWORD|TOKEN")
# The beginning of the variables that name the senders of agents.
AGENT = "agent_email_"
EMAIL_PROVIDERS = ("microsoft", "resend", "smtp", "outbox", "none")
Networks = tuple[IPv4Network | IPv6Network, ...]


def _postgres_address(text: str) -> str:
    if not text.startswith(("postgres://", "postgresql://")):
        raise ValueError("must start with postgresql://, for example postgresql://user:password@host:5432/atlas")
    return text


def _web_address(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://, for example http://127.0.0.1:8080")
    if not _WEB_ADDRESS.fullmatch(text):
        raise ValueError("is not the address of a server, such as https://example.com")
    return text.rstrip("/")


def _safe_address(text: str) -> str:
    """An address that secrets are sent to."""
    address = _web_address(text)
    if not address.startswith("https://") and not _LOOPBACK.match(address):
        raise ValueError("must start with https://, since secrets are sent there; http:// is for this machine alone")
    return address


def _encrypted_address(text: str) -> str:
    """The same for a library that refuses http:// altogether."""
    if not text.startswith("https://"):
        raise ValueError("must start with https://, for example https://login.microsoftonline.com")
    return _web_address(text)


def _sendable(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise ValueError("holds a line break, a control character or a letter beyond ASCII")
    return text


def _schema(text: str) -> str:
    if not _SCHEMA.fullmatch(text):
        raise ValueError("must have lower-case letters, digits and underscores, at most 48, and begin with a letter")
    return text


def _program(text: str) -> str:
    reason = program_problem(text)
    if reason is not None:
        raise ValueError(reason)
    return text


def _networks(text: str) -> Networks:
    try:
        return tuple(ip_network(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"must list addresses or networks, such as 127.0.0.1,10.0.0.0/8 ({error})") from None


def _copy_places(text: str) -> tuple[str, ...]:
    return tuple(_copy_place(part.strip()) for part in text.split(",") if part.strip())


def _copy_place(text: str) -> str:
    kind, _, rest = text.partition(":")
    if (kind == "file" and rest.startswith("/")) or (kind == "s3" and _BUCKET.fullmatch(rest)):
        return text
    if kind == "tsa":
        # What is sent to it is public.
        return f"tsa:{_web_address(rest)}"
    if kind in ("http", "https"):
        return _safe_address(text)
    raise ValueError("must list places: file:/folder, https://server/path, s3://bucket/prefix, tsa:https://authority")


def _providers(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    if not names or any(name not in EMAIL_PROVIDERS for name in names):
        raise ValueError(f"must list one or more of {', '.join(EMAIL_PROVIDERS)}")
    return names


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"must be {', '.join(choices[:-1])} or {choices[-1]}")
        return text.lower()

    return read


def _currency(text: str) -> str:
    code = text.strip().upper()
    if not (len(code) == 3 and code.isascii() and code.isalpha()):
        raise ValueError("must be a currency of ISO 4217, such as EUR")
    return code


def _number(kind: type[int] | type[float], least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise ValueError("must be a whole number" if kind is int else "must be a number") from None
        # Not a number is neither.
        if not least <= value <= most:
            raise ValueError(f"must be between {least} and {most}")
        return value

    return read


@dataclass(frozen=True)
class Settings:
    """The settings of an installation. Field names are the environment variables in lower case."""

    database_url: str | None = None
    atlas_owner_url: str | None = None
    # A direct address for the connections that listen, where database_url leads to a pooler.
    atlas_listen_database_url: str | None = None
    # The same database with the login of the application, for the transactions of handlers.
    atlas_application_database_url: str | None = None
    # A standby for reads that decide nothing, and how old its data may be.
    atlas_read_database_url: str | None = None
    atlas_read_staleness_seconds: float = 5
    atlas_schema: str = "atlas"
    atlas_home: Path = Path(".atlas")
    atlas_host: str = "127.0.0.1"
    atlas_port: int = 8080
    atlas_trusted_proxies: Networks | None = None
    # Networks beside the public ones that HTTP_CALL may connect to.
    atlas_http_allowed_networks: Networks | None = None
    atlas_url: str | None = None
    atlas_token: str | None = None
    atlas_operator_token: str | None = None
    atlas_log_level: str = "info"
    # Of everything that is counted in cents.
    atlas_currency: str = "EUR"
    # Touched for as long as a program's event loop runs, for probes.
    atlas_alive_file: Path | None = None

    atlas_lease_seconds: float = 30
    atlas_poll_ms: int = 1000
    atlas_concurrency: int = 50
    atlas_batch: int = 1000
    # Off: priority and age order the jobs of all tenants together.
    atlas_fairness: Literal["on", "off"] = "on"
    atlas_grace_seconds: float = 25

    # The program of command definitions without an argv.
    atlas_command_program: str | None = None

    atlas_secret_key_file: Path | None = None
    atlas_audit_key_file: Path | None = None
    atlas_checkpoint_dir: Path | None = None
    # Places outside that checkpoints are copied to, how often, and for how long a bucket locks them; 0 days: no lock.
    atlas_checkpoint_copies: tuple[str, ...] | None = None
    atlas_checkpoint_copy_minutes: float = 60
    atlas_checkpoint_lock_days: int = 365
    atlas_checkpoint_token: str | None = None
    atlas_bucket_endpoint: str = "https://s3.amazonaws.com"
    atlas_bucket_region: str = "us-east-1"
    atlas_bucket_access_key_id: str | None = None
    atlas_bucket_secret_access_key: str | None = None
    # Between two verifications by a scheduler; 0: none.
    atlas_audit_verify_hours: float = 24
    # How long rows of the audit log stay at least.
    atlas_audit_min_age_days: int = 365

    outbound_email_provider: tuple[str, ...] | None = None
    outbound_email_from: str | None = None
    resend_api_key: str | None = None
    resend_api_url: str | None = None
    smtp_host: str | None = None
    # Unset: 587 for starttls, 465 for tls, 25 for none.
    smtp_port: int | None = None
    smtp_tls: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str | None = None
    smtp_password: str | None = None
    smtp_connections: int = 4
    smtp_messages_per_minute: int | None = None
    ms_tenant_id: str | None = None
    ms_client_id: str | None = None
    ms_client_secret: str | None = None
    ms_sender_upn: str | None = None
    ms_authority_url: str = "https://login.microsoftonline.com"
    ms_graph_url: str = "https://graph.microsoft.com/v1.0"
    # What Exchange allows a mailbox; and a little less than the two a second that Resend allows an account by default,
    # since requests take unequally long to arrive.
    ms_messages_per_minute: int = 30
    resend_messages_per_minute: int = 100
    # The senders of AGENT_EMAIL_<AGENT>, by agent.
    agent_emails: dict[str, str] = field(default_factory=dict)

    @cached_property
    def home(self) -> Path:
        """The folder for everything that is not in the database, as an absolute path."""
        return self.atlas_home.expanduser().resolve()

    @property
    def embedded(self) -> bool:
        """Whether Atlas uses its own Postgres."""
        return self.database_url is None

    @property
    def email_order(self) -> tuple[str, ...]:
        """The mail providers to try, in this order, for tenants that have no order of their own."""
        return self.outbound_email_provider or (("outbox",) if self.embedded else ("none",))


# How the text of a setting becomes its value; that of others is the value. ValueError says what is wrong with it.
_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("database_url", "atlas_owner_url"), _postgres_address),
    **dict.fromkeys(("atlas_listen_database_url", "atlas_read_database_url"), _postgres_address),
    "atlas_application_database_url": _postgres_address,
    "atlas_read_staleness_seconds": _number(float, 1, 3600),
    "atlas_schema": _schema,
    **dict.fromkeys(("atlas_home", "atlas_alive_file", "atlas_checkpoint_dir"), Path),
    **dict.fromkeys(("atlas_secret_key_file", "atlas_audit_key_file"), Path),
    "atlas_port": _number(int, 0, 65535),
    **dict.fromkeys(("atlas_trusted_proxies", "atlas_http_allowed_networks"), _networks),
    "atlas_url": _web_address,
    **dict.fromkeys(("resend_api_url", "ms_graph_url"), _safe_address),
    "ms_authority_url": _encrypted_address,
    "atlas_log_level": _one_of("debug", "info", "warning", "error"),
    "atlas_currency": _currency,
    "atlas_lease_seconds": _number(float, 0.2, 3600),
    "atlas_poll_ms": _number(int, 10, 60_000),
    "atlas_fairness": _one_of("on", "off"),
    **dict.fromkeys(("atlas_concurrency", "atlas_batch"), _number(int, 1, 10_000)),
    "atlas_grace_seconds": _number(float, 0, 3600),
    "atlas_command_program": _program,
    "atlas_checkpoint_copies": _copy_places,
    "atlas_checkpoint_copy_minutes": _number(float, 0.1, 10_080),
    "atlas_bucket_endpoint": _safe_address,
    **dict.fromkeys(
        ("atlas_checkpoint_token", "atlas_bucket_access_key_id", "atlas_bucket_secret_access_key"), _sendable
    ),
    "atlas_bucket_region": _sendable,
    "atlas_audit_verify_hours": _number(float, 0, 8_784),
    **dict.fromkeys(("atlas_audit_min_age_days", "atlas_checkpoint_lock_days"), _number(int, 0, 36_500)),
    "outbound_email_provider": _providers,
    **dict.fromkeys(("resend_api_key", "ms_tenant_id", "ms_client_id", "ms_client_secret"), _sendable),
    "smtp_port": _number(int, 1, 65535),
    "smtp_tls": _one_of("starttls", "tls", "none"),
    "smtp_connections": _number(int, 1, 100),
    **dict.fromkeys(
        ("smtp_messages_per_minute", "ms_messages_per_minute", "resend_messages_per_minute"), _number(int, 1, 100_000)
    ),
}


def load_settings(**overrides: Any) -> Settings:
    """Read the settings. Raises SettingsError with the variable that is wrong."""
    values: dict[str, Any] = {**_variables(), **overrides}
    return Settings(
        **{field.name: _value(field.name, values[field.name]) for field in fields(Settings) if field.name in values}
    )


def _value(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    variable = name.upper()
    try:
        return _READERS.get(name, str)(value)
    except ValueError as error:
        text = "" if _SECRET.search(variable) else f" = {value!r}"
        raise SettingsError(
            f"{variable}{text} cannot be used: {error}.",
            remedy=f"Correct {variable} in the environment or in .env, or unset it.",
        ) from None


def _variables() -> dict[str, Any]:
    """The variables that are set, in lower case: those of the environment, then those of `.env`.

    Blanks around a value are removed: secrets that are mounted as files often end with a line break.
    """
    variables: dict[str, str] = {}
    for source in (_dotenv(), os.environ):
        variables |= {name.lower(): text.strip() for name, text in source.items() if text and text.strip()}
    senders = {name.removeprefix(AGENT).upper(): text for name, text in variables.items() if name.startswith(AGENT)}
    return {**variables, "agent_emails": senders}


def _dotenv() -> dict[str, str | None]:
    """The variables of a `.env` in this folder, if there is one."""
    if not os.path.isfile(".env"):
        return {}
    from dotenv import dotenv_values

    return dotenv_values(".env")
