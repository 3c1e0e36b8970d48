"""The mails of a test: EMAIL_SEND writes them to a folder, whichever provider the environment names."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from atlas.engine.outbox_files import list_mails, outbox_folder, read_mail
from atlas.settings import load_settings
from atlas.workers.email import register_email

# Without these no provider can send, also where a tenant of the test has its own list of providers.
_CREDENTIALS = dict.fromkeys(("resend_api_key", "ms_client_secret", "smtp_host", "smtp_user", "smtp_password"))


class Mailbox:
    """Reads the mails that were sent while it was open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator["Mailbox"]:
        """Serve EMAIL_SEND in this process, into a folder that is removed after the block."""
        with TemporaryDirectory(prefix="atlas-mails-") as home:
            settings = load_settings(atlas_home=home, outbound_email_provider="outbox", **_CREDENTIALS)
            mailer = register_email(settings)
            try:
                yield cls(outbox_folder(settings.home))
            finally:
                await mailer.close()

    def all(self, tenant: str | None) -> list[EmailMessage]:
        """The mails of a tenant, or of all, the oldest first."""
        mails = list_mails(self._folder, tenant=tenant, limit=sys.maxsize)
        return [self.of(UUID(mail.job_id)) for mail in reversed(mails)]

    def of(self, job_id: UUID) -> EmailMessage:
        """The mail of one job, or NotFound."""
        return read_mail(self._folder, job_id)[1]
