"""What a mail provider is to the handler, and the three ways in which a sending can go wrong."""

from typing import NamedTuple, Protocol
from uuid import UUID

from atlas.errors import AtlasError
from atlas.workers.email.addresses import Address
from atlas.workers.email.ledger import LedgerEntry
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
        # The provider got the request, and said so.
        self.answered = False


class MaybeSent(AtlasError):
    """The request was made and the mail may be out. `answered`: the provider spoke of a failure of its own."""

    def __init__(self, message: str, *, answered: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.answered = answered
        self.retry_after = retry_after


class CannotTell(AtlasError):
    """Nobody can find out any more whether an earlier attempt sent the mail. An operator decides."""


class Outgoing(NamedTuple):
    """A mail on its way out: what was asked for, whose it is, from whom it goes, and which job it stands for."""

    mail: EmailInput
    job_id: UUID
    tenant: str
    sender: Address
    headers: dict[str, str]


class Provider(Protocol):
    """Someone who sends mails, with an entry of the ledger that tells the next attempt how far this one came."""

    async def send(self, mail: Outgoing, entry: LedgerEntry) -> str:
        """Send it and answer the provider's id of the message; raises NotSent or MaybeSent."""
        ...

    async def resolve(self, entry: LedgerEntry) -> str | None:
        """What became of an earlier sending whose end is not known.

        The id of the message if it is out, None if sending again cannot make two of it, CannotTell otherwise.
        """
        ...

    async def discard(self, entry: LedgerEntry) -> str | None:
        """Remove the draft that was refused, before another provider is tried.

        The id of the message if it turns out to be out, NotSent if the draft is there and cannot be removed.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
