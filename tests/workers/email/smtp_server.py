"""A real SMTP server on loopback, with STARTTLS and a login, that can be told how to reply."""

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

USER, PASSWORD = "atlas", "s3cret of the mail server"
CUT = "cut"


@dataclass
class Received:
    """A mail that the server accepted: its envelope and its content."""

    sender: str
    recipients: list[str]
    message: EmailMessage


class SmtpServer:
    """Accepts mails, unless `replies` has another reply for the next MAIL, RCPT or DATA; `CUT` ends the connection."""

    def __init__(self, authority: trustme.CA) -> None:
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self.tls)
        self.replies: dict[str, deque[str]] = defaultdict(deque)
        self.received: list[Received] = []
        self.sessions: list[SMTP] = []
        self.port = 0

    @asynccontextmanager
    async def running(self, *, implicit_tls: bool = False, **options: Any) -> AsyncIterator["SmtpServer"]:
        loop = asyncio.get_running_loop()
        settings = {"authenticator": self._authenticate, "auth_required": True, **options}
        if not implicit_tls:
            settings = {"tls_context": self.tls, "require_starttls": True, **settings}

        def session() -> SMTP:
            self.sessions.append(SMTP(self, loop=loop, hostname="mail.test", **settings))
            return self.sessions[-1]

        server = await loop.create_server(session, "127.0.0.1", 0, ssl=self.tls if implicit_tls else None)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.hang_up()

    def hang_up(self) -> None:
        """Close every connection, as a server does that was idle for long."""
        for session in self.sessions:
            if session.transport is not None:
                session.transport.abort()

    async def handle_MAIL(self, server: SMTP, session: Any, envelope: Envelope, address: str, options: Any) -> str:
        if (reply := self._reply("MAIL", server)) is None:
            envelope.mail_from = address
        return reply or "250 OK"

    async def handle_RCPT(self, server: SMTP, session: Any, envelope: Envelope, address: str, options: Any) -> str:
        if (reply := self._reply("RCPT", server)) is None:
            envelope.rcpt_tos.append(address)
        return reply or "250 OK"

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Envelope) -> str:
        reply = self._reply("DATA", server)
        if reply is None or reply == CUT:
            assert envelope.mail_from is not None
            assert isinstance(envelope.content, bytes)
            message = message_from_bytes(envelope.content, policy=policy.default)
            self.received.append(Received(envelope.mail_from, envelope.rcpt_tos, message))
        return reply or "250 OK, queued"

    def _reply(self, command: str, server: SMTP) -> str | None:
        reply = self.replies[command].popleft() if self.replies[command] else None
        if reply == CUT:
            assert server.transport is not None
            server.transport.abort()
        return reply

    def _authenticate(self, server: SMTP, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        known = isinstance(data, LoginPassword) and data == LoginPassword(USER.encode(), PASSWORD.encode())
        return AuthResult(success=known, handled=False)
