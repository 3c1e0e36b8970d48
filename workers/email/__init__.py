"""Mail: the job type EMAIL_SEND, its providers, and the effects that keep a mail from being sent twice."""

from typing import TYPE_CHECKING

from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.handlers.types import know_input
from atlas.engine.tenants.tenants import know_limit
from atlas.settings import Settings
from atlas.workers.email.message import EmailInput
from atlas.workers.email.tenant_settings import TenantEmailSettings

if TYPE_CHECKING:
    from atlas.workers.email.handler import Mailer

__all__ = ["EMAIL_SEND", "EmailInput", "know_email", "register_email"]

EMAIL_SEND = "EMAIL_SEND"


def know_email() -> None:
    """Check the inputs of mails and the mail settings of tenants in this process, without sending mails."""
    know_input(EMAIL_SEND, EmailInput)
    know_limit("email", TenantEmailSettings)


def register_email(settings: Settings) -> "Mailer":
    """Register EMAIL_SEND in this process: workers serve it, and enqueueing checks its input.

    Refuses providers that lack a setting, wrong senders and a wrong SSL_CERT_FILE. A second call replaces the mailer.
    """
    # Imported here: programs that only check mails need not load the providers' libraries.
    from atlas.outgoing.http import tls_context
    from atlas.workers.email.handler import Mailer
    from atlas.workers.email.routing import check_providers, check_senders, check_server

    check_providers(settings)
    check_senders(settings)
    check_server(settings)
    if settings.resend_api_key or settings.ms_client_secret or settings.smtp_host:
        tls_context()
    mailer = Mailer(settings)

    @job(EMAIL_SEND, success_action="EMAIL_SENT", audit_content=True)
    async def send_email(input: EmailInput, ctx: AttemptContext) -> dict[str, object]:
        """Send a mail by the installation's or the tenant's provider."""
        return await mailer.send(input, ctx)

    return mailer
