"""The end of the audit log that a failover or a restore lost: what is missing, stored for every program to read."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch_value, statement

SAVE = statement("audit/sql/save_lost_end.sql")

STATE = "audit_lost_end"


@dataclass(frozen=True, slots=True)
class LostEnd:
    """What was signed last, and the newest signature that is still in the log; its time is None if there is none."""

    signed_size: int
    signed_at: datetime
    kept_size: int
    kept_at: datetime | None

    @property
    def message(self) -> str:
        """From when to when something is missing, and how much."""
        missing = self.signed_size - self.kept_size
        signed = f"{self.signed_size} leaves of the audit log were signed at {_text(self.signed_at)}"
        if self.kept_at is None:
            return f"{signed}, and it holds no older signature: all of them are missing or were changed."
        return (
            f"{signed}; the newest signature in it covers {self.kept_size} of them, of {_text(self.kept_at)}:"
            f" what happened between these times, {missing} leaves, is missing or was changed."
        )

    @property
    def facts(self) -> dict[str, Any]:
        """For the event of the epoch in which the loss is accepted."""
        return asdict(self)


async def find_lost_end(conn: Connection, *, size: int, signed_size: int, signed_at: datetime) -> LostEnd:
    """What a log of `size` leaves lacks of those that were signed."""
    most = min(size, signed_size - 1)
    kept = await prisma_on(conn).auditcheckpoint.find_first(where={"size": {"lte": most}}, order={"size": "desc"})
    if kept is None:
        return LostEnd(signed_size, signed_at, 0, None)
    return LostEnd(signed_size, signed_at, kept.size, kept.signedAt)


async def save_lost_end(conn: Connection, lost: LostEnd, *, by: str) -> None:
    """Store it for `atlas status`, the API and the alerts; writes nothing if it is stored already."""
    value = orjson.dumps({"message": lost.message, **lost.facts}).decode()
    await fetch_value(conn, SAVE, value=value, by=by)


async def clear_lost_end(conn: Connection) -> None:
    """The log was signed again."""
    await prisma_on(conn).systemstate.delete_many({"key": STATE})


def _text(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
