"""Routes a mail: by which providers, in which order, from which sender, and at which pace.

The installation's settings decide, and a tenant may differ: `tenants.limits` holds
`{"email": {"providers": [...], "from": "...", "agents": [...], "per_minute": n}}`, each part optional.
"""

import re
import time
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from pydantic import ValidationError

from atlas.db.pool import Pool
from atlas.db.statements import statement
from atlas.engine.jobs.handlers.types import field_errors
from atlas.errors import NotFound, SettingsError
from atlas.extras import require
from atlas.settings import Settings
from atlas.workers.email.addresses import Address, parse_address
from atlas.workers.email.pace import Pace
from atlas.workers.email.providers import NotSent
from atlas.workers.email.tenant_settings import TenantEmailSettings

TENANT = statement("workers/email/sql/tenant.sql")

# How long a tenant's row is cached.
FRESH_SECONDS = 5.0
DEFAULT_SENDER = Address("atlas@localhost", "Atlas")

# The variables without which a provider cannot work.
NEEDS = {
    "microsoft": ("ms_tenant_id", "ms_client_id", "ms_client_secret"),
    "resend": ("resend_api_key",),
    "smtp": ("smtp_host",),
    "outbox": (),
    "none": (),
}
# Where it is not OUTBOUND_EMAIL_FROM.
_DEFAULT_SENDER = {"microsoft": "ms_sender_upn"}


def check_providers(settings: Settings) -> None:
    """Refuse a provider in OUTBOUND_EMAIL_PROVIDER that lacks a setting: every mail would fail."""
    for provider in settings.outbound_email_provider or ():
        missing = [name.upper() for name in NEEDS[provider] if getattr(settings, name) is None]
        if NEEDS[provider]:
            require("mail")
        if missing:
            raise SettingsError(
                f"OUTBOUND_EMAIL_PROVIDER names {provider}, which needs {' and '.join(missing)}.",
                remedy=f"Set {' and '.join(missing)}, or take {provider} out of OUTBOUND_EMAIL_PROVIDER.",
            )


def check_server(settings: Settings) -> None:
    """Refuse settings that would send a password in clear, or half a login, when the program starts."""
    if (settings.smtp_user is None) != (settings.smtp_password is None):
        missing = "SMTP_PASSWORD" if settings.smtp_password is None else "SMTP_USER"
        raise SettingsError(f"{missing} is not set.", remedy="Set both SMTP_USER and SMTP_PASSWORD, or neither.")
    if settings.smtp_user is not None and settings.smtp_tls == "none":
        raise SettingsError(
            "SMTP_TLS = 'none' cannot be used with SMTP_PASSWORD: it would be sent in clear.",
            remedy="Set SMTP_TLS to starttls or tls, or unset SMTP_USER and SMTP_PASSWORD.",
        )


@dataclass(frozen=True, slots=True)
class TenantRoute:
    """One tenant's slug and mail settings."""

    tenant_id: UUID
    slug: str
    email: TenantEmailSettings


class Routes:
    """The installation's mail settings, and a cache of those of its tenants."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[UUID, tuple[float, TenantRoute]] = {}

    async def of(self, pool: Pool, tenant_id: UUID) -> TenantRoute:
        """The mail settings of one tenant."""
        cached = self._known.get(tenant_id)
        if cached is not None and cached[0] > time.monotonic():
            return cached[1]
        row = await pool.fetchrow(TENANT.sql, *TENANT.bind({"tenant_id": tenant_id}))
        if row is None:
            raise NotFound("tenant", tenant_id)
        route = TenantRoute(tenant_id, row["slug"], _parsed(row["email"], row["slug"]))
        self._known[tenant_id] = (time.monotonic() + FRESH_SECONDS, route)
        return route

    def order(self, route: TenantRoute) -> tuple[str, ...]:
        """The providers to try, in this order."""
        return route.email.providers or self._settings.email_order

    def require(self, provider: str) -> None:
        """Raise NotSent for a provider that is not set up, with the variable it lacks."""
        if provider == "none":
            raise NotSent(
                "No mail provider is set up, so mails are refused.",
                permanent=True,
                remedy="Set OUTBOUND_EMAIL_PROVIDER to microsoft, resend, smtp or outbox.",
            )
        for name in NEEDS[provider]:
            if getattr(self._settings, name) is None:
                raise NotSent(
                    f"The mail provider {provider} needs {name.upper()}, which is not set.",
                    permanent=True,
                    remedy=f"Set {name.upper()} where the worker runs.",
                )

    def sender(self, route: TenantRoute, provider: str, agent: str | None) -> Address:
        """The sender of a mail: the agent it names, else the tenant's sender, else the provider's."""
        if agent is not None:
            if route.email.agents is not None and _key(agent) not in map(_key, route.email.agents):
                raise NotSent(f"The tenant {route.slug} may not send as the agent {agent}.", permanent=True)
            if (found := self._settings.agent_emails.get(_key(agent))) is not None:
                return _address(f"AGENT_EMAIL_{_key(agent)}", found)
        if route.email.sender is not None:
            return _address(f"email.from of the tenant {route.slug}", route.email.sender)
        variable = _DEFAULT_SENDER.get(provider, "outbound_email_from")
        value = getattr(self._settings, variable)
        if value is not None:
            return _address(variable.upper(), value)
        if provider == "outbox":
            return DEFAULT_SENDER
        raise NotSent(
            f"The mail provider {provider} has no sender: {variable.upper()} is not set.",
            permanent=True,
            remedy=f"Set {variable.upper()} where the worker runs.",
        )

    def paces(self, route: TenantRoute, provider: str, sender: Address, *, with_tenant: bool) -> list[Pace]:
        """The paces a mail must keep: its mailbox's or the provider account's, and its tenant's where it has one."""
        paces = []
        if provider == "microsoft":
            bucket = f"sender:microsoft:{sender.address.lower()}"
            paces.append(Pace(bucket, self._settings.ms_messages_per_minute))
        elif provider == "resend":
            # Resend limits the requests of an account per second, for all senders together.
            paces.append(Pace("resend", self._settings.resend_messages_per_minute, at_once=1))
        elif provider == "smtp" and self._settings.smtp_messages_per_minute is not None:
            paces.append(Pace("smtp", self._settings.smtp_messages_per_minute))
        if with_tenant and route.email.per_minute is not None:
            paces.append(Pace(f"tenant:{route.tenant_id}", route.email.per_minute))
        return paces


def check_senders(settings: Settings) -> None:
    """Refuse senders that are not addresses when the program starts, not when the first mail is sent."""
    named = {"OUTBOUND_EMAIL_FROM": settings.outbound_email_from, "MS_SENDER_UPN": settings.ms_sender_upn}
    named |= {f"AGENT_EMAIL_{agent}": address for agent, address in settings.agent_emails.items()}
    for variable, value in named.items():
        if value is None:
            continue
        try:
            parse_address(value)
        except ValueError as error:
            raise SettingsError(
                f"{variable} cannot be used: it {error}.",
                remedy=f"Set {variable} to an address such as mail@example.com, or unset it.",
            ) from None


def _parsed(found: str | None, slug: str) -> TenantEmailSettings:
    if found is None:
        return TenantEmailSettings()
    try:
        return TenantEmailSettings.model_validate_json(found)
    except ValidationError as error:
        reasons = "; ".join(str(mistake) for mistake in field_errors(error)[:5])
        raise NotSent(
            f"The mail settings of the tenant {slug} (limits.email) are wrong: {reasons}.", permanent=True
        ) from error


# An installation has few senders and many mails.
@lru_cache(maxsize=1024)
def _address(where: str, value: str) -> Address:
    try:
        return parse_address(value)
    except ValueError as error:
        raise NotSent(f"{where} cannot be a sender: it {error}.", permanent=True) from None


def _key(agent: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", agent.upper())
