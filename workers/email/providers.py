"""The interface of mail providers, and the three ways in which sending a mail can fail."""

from typing import NamedTuple, Protocol
from uuid import UUID

from atlas.errors import AtlasError
from atlas.workers.email.addresses import Address
from atlas.workers.email.mail_effect import MailEffect
from atlas.workers.email.message import EmailInput


class NotSent(AtlasError):
    """The provider certainly does not have the mail. Another may be tried, or this one again unless `permanent`."""

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        retry_after: float | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.permanent = permanent
        self.retry_after = retry_after
        # The provider received the request and responded.
        self.responded = False


class MaybeSent(AtlasError):
    """The request was made and the mail may be out. `responded`: the provider reported a failure of its own."""

    def __init__(self, message: str, *, responded: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.responded = responded
        self.retry_after = retry_after


class MailUnknown(AtlasError):
    """Whether an earlier attempt sent the mail can no longer be found out. An operator decides."""


class Outgoing(NamedTuple):
    """A mail to send: the input, its job, its tenant's slug, its sender and its extra headers."""

    mail: EmailInput
    job_id: UUID
    tenant: str
    sender: Address
    headers: dict[str, str]


class Provider(Protocol):
    """Sends mails, and notes in the ledger how far it came, for the next attempt."""

    async def send(self, mail: Outgoing, effect: MailEffect) -> str:
        """Send it and return the provider's id of the message; raises NotSent, MaybeSent or MailUnknown."""
        ...

    async def resolve(self, effect: MailEffect) -> str | None:
        """Find out what became of an earlier request whose outcome is unknown.

        Returns the id of the message if it is out, None if sending again cannot make two of it. Raises MailUnknown
        otherwise.
        """
        ...

    async def discard(self, effect: MailEffect) -> str | None:
        """Remove the draft that was refused, before another provider is tried.

        Returns the id of the message if it is out after all. Raises NotSent if the draft cannot be removed.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
