"""Sends mail by SMTP, through the installation's mail server.

SMTP has no idempotency key, and a server cannot be asked later what became of a mail. Until the content is sent, every
failure means that the mail is not out. Then the server's reply decides; if it never comes, an operator does. The
Message-ID is made of the job's id, so that servers and programs that compare them show a repeated mail once.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiosmtplib

from atlas.outgoing.http import CONNECT_SECONDS, KEEP_SECONDS, tls_context
from atlas.settings import Settings
from atlas.workers.email.mail_effect import MailEffect
from atlas.workers.email.mime import render
from atlas.workers.email.provider_responses import describe, secrets_of, shown_message
from atlas.workers.email.providers import MailUnknown, NotSent, Outgoing

REPLY_SECONDS = 60.0
# A server scans the content before it accepts it. RFC 5321 asks for ten minutes: who stops waiting knows nothing.
CONTENT_SECONDS = 600.0
# How a connection fails, apart from what the server says.
BROKEN = (aiosmtplib.SMTPException, OSError, TimeoutError)


class Smtp:
    """The provider `smtp`."""

    def __init__(self, settings: Settings) -> None:
        self._connections = _Connections(settings)
        self._secrets = secrets_of(settings)
        self._who = f"The mail server {settings.smtp_host}"

    async def send(self, mail: Outgoing, effect: MailEffect) -> str:
        """Give the mail to the server for all of its recipients, or for none."""
        domain = mail.sender.address.rpartition("@")[2]
        message_id = f"{mail.job_id}@{domain}"
        content = render(mail.mail, sender=mail.sender, message_id=message_id, headers=mail.headers, names_bcc=False)
        try:
            async with self._connections.opened() as client:
                size = [f"SIZE={len(content)}"] if client.supports_extension("size") else []
                await client.mail(mail.sender.address, options=size)
                for recipient in mail.mail.recipients:
                    await client.rcpt(recipient.address)
                await self._send_content(client, content, effect)
        except aiosmtplib.SMTPResponseException as error:
            raise self._refusal(error) from error
        except aiosmtplib.SMTPNotSupported as error:
            raise NotSent(f"{self._who} cannot be used: {self._said(error)}.", permanent=True) from error
        except BROKEN as error:
            raise NotSent(f"{self._who} could not be reached: {self._said(error)}.") from error
        return message_id

    async def resolve(self, effect: MailEffect) -> str | None:
        """An SMTP server does not tell what became of a mail."""
        raise MailUnknown(f"{self._who} was given this mail, and its reply never came.")

    async def discard(self, effect: MailEffect) -> str | None:
        """An SMTP server keeps no drafts."""
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def _send_content(self, client: aiosmtplib.SMTP, content: bytes, effect: MailEffect) -> None:
        await effect.requesting()
        try:
            await client.data(content, timeout=CONTENT_SECONDS)
        except aiosmtplib.SMTPDataError as error:
            # Only these replies say that the server does not have it.
            if not 400 <= error.code < 600:
                raise MailUnknown(f"{self._who} responded to the mail with {error.code}.") from error
            await effect.refused(self._refusal(error).message)
            raise
        except BROKEN as error:
            reason = self._said(error)
            raise MailUnknown(f"{self._who} was given the mail, and the connection broke: {reason}.") from error

    def _refusal(self, error: aiosmtplib.SMTPResponseException) -> NotSent:
        said = shown_message(error.message, self._secrets).strip(" .:") or "no reason given"
        return NotSent(f"{self._who} refused the mail with {error.code}: {said}.", permanent=error.code >= 500)

    def _said(self, error: BaseException) -> str:
        return describe(error, self._secrets).strip(" .:")


class _Connections:
    """A limited number of connections to the server, each kept for some seconds after a mail for the next one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._free = asyncio.Semaphore(settings.smtp_connections)
        self._idle: list[tuple[float, aiosmtplib.SMTP]] = []

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[aiosmtplib.SMTP]:
        """A connection that is signed in. It is kept afterwards, unless the block raises."""
        async with self._free:
            client = await self._take()
            try:
                yield client
            except BaseException:
                client.close()
                raise
            self._idle.append((time.monotonic(), client))

    async def close(self) -> None:
        for _, client in self._idle:
            with suppress(*BROKEN):
                await client.quit(timeout=CONNECT_SECONDS)
            client.close()
        self._idle.clear()

    async def _take(self) -> aiosmtplib.SMTP:
        while self._idle:
            since, client = self._idle.pop()
            # A server may have closed it meanwhile.
            with suppress(*BROKEN):
                if time.monotonic() < since + KEEP_SECONDS and client.is_connected:
                    await client.rset()
                    return client
            client.close()
        client = aiosmtplib.SMTP(**self._options())
        await client.connect(timeout=CONNECT_SECONDS)
        return client

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "hostname": settings.smtp_host,
            "port": settings.smtp_port,
            "username": settings.smtp_user,
            "password": settings.smtp_password,
            "use_tls": settings.smtp_tls == "tls",
            "start_tls": settings.smtp_tls == "starttls",
            "tls_context": None if settings.smtp_tls == "none" else tls_context(),
            "timeout": REPLY_SECONDS,
        }
