"""Mails: the job type EMAIL_SEND, its providers, and the ledger that keeps a mail from going out twice."""

from typing import TYPE_CHECKING

from atlas.engine.jobs import JobContext, job
from atlas.engine.jobs.types import know_input
from atlas.engine.tenants import know_limit
from atlas.settings import Settings
from atlas.workers.email.message import EmailInput
from atlas.workers.email.tenant_settings import TenantEmailSettings

if TYPE_CHECKING:
    from atlas.workers.email.handler import Mailer

__all__ = ["EmailInput", "know_email", "register_email"]

EMAIL_SEND = "EMAIL_SEND"


def know_email() -> None:
    """Have mails, and what tenants decide about them, checked in this process, whoever sends them."""
    know_input(EMAIL_SEND, EmailInput)
    know_limit("email", TenantEmailSettings)


def register_email(settings: Settings) -> "Mailer":
    """Make EMAIL_SEND known to this process: workers serve it from now on, and enqueueing checks its input.

    Wrong senders in the settings are refused here, and so is a wrong SSL_CERT_FILE. Called again, it replaces the
    mailer of the call before.
    """
    # Here, so that those who only check mails do not wait for the providers' libraries.
    from atlas.http import tls_context
    from atlas.workers.email.handler import Mailer
    from atlas.workers.email.routing import check_senders

    check_senders(settings)
    if settings.resend_api_key or settings.ms_client_secret:
        tls_context()
    mailer = Mailer(settings)

    @job(EMAIL_SEND, success_action="EMAIL_SENT")
    async def send_email(input: EmailInput, ctx: JobContext) -> dict[str, object]:
        """Send a mail by the installation's or the tenant's provider."""
        return await mailer.send(input, ctx)

    return mailer
