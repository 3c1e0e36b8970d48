"""What only the border refuses: who may not come in, and what does not fit through the door."""

import asyncpg

from atlas.db.pool import UNREACHABLE
from atlas.errors import AtlasError, DatabaseError, Refused

# What is raised when the database is away; the last by a connection that broke between two steps of a statement.
AWAY = (*UNREACHABLE, asyncpg.InternalClientError)


class Unauthenticated(AtlasError):
    """Nobody is known by the credential that was sent, or none was."""

    def __init__(self, message: str = "This needs a token that is good now.") -> None:
        super().__init__(message, remedy="Send one as `Authorization: Bearer atl_…`, or sign in.")


class Forbidden(Refused):
    """The caller is known, and may not do this."""


class BodyTooLarge(AtlasError):
    """More bytes arrive than anyone may send here."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The body is larger than {limit // 1024} KiB.",
            remedy="Send less at a time, or store large data elsewhere and send where to find it.",
        )


class BodyTooSlow(AtlasError):
    """A body takes longer to arrive than anyone may take."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The body did not arrive within {seconds:.0f} s.", remedy="Send less at a time.")


class UnsupportedMedia(AtlasError):
    """The body is not in a form that is read here."""

    def __init__(self, given: str) -> None:
        super().__init__(f"A body of type {given or 'nothing at all'} is not read here.", remedy="Send JSON.")


class TooManyRequests(AtlasError):
    """Faster than the caller's share; `after` seconds later there is room again."""

    def __init__(self, whose: str, after: float) -> None:
        super().__init__(f"There are too many requests {whose}.", remedy=f"Try again in {after:.1f} s.")
        self.after = after


class Busy(DatabaseError):
    """A change did not come about in time, mostly because others hold what it changes. Nothing of it stands."""

    def __init__(self) -> None:
        super().__init__("The change waited too long for others and was not made.", remedy="Try again.")
