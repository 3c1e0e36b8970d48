"""The places of forwarders: how far each is, and by how much it is behind. They are notes in `system_state`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from atlas.actors import Actor
from atlas.audit.changes import bare_url
from atlas.audit.forwarding.sealed_rows import Place
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.errors import Conflict, NotFound

ADD = statement("audit/forwarding/sql/forwarder_add.sql")
LIST = statement("audit/forwarding/sql/forwarder_list.sql")
MOVE = statement("audit/forwarding/sql/forwarder_move.sql")
REMOVE = statement("audit/forwarding/sql/forwarder_remove.sql")
LAST_SEAL = statement("audit/forwarding/sql/forwarder_start.sql")
BEFORE = statement("audit/forwarding/sql/forwarders_before.sql")

PREFIX = "audit_forward:"
# A forwarder that is behind for longer is a warning of `atlas doctor`.
MAX_LAG_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ForwarderStatus:
    """A forwarder: where it sends, how many rows it has sent, and how many sealed rows wait for how long."""

    name: str
    destination: str
    shape: str
    place: Place
    sent: int
    lag_rows: int
    lag_seconds: float
    updated_at: datetime

    @property
    def is_behind(self) -> bool:
        """True if rows have waited for longer than a person should accept."""
        return self.lag_seconds > MAX_LAG_SECONDS


async def add_forwarder(
    conn: Connection, name: str, destination: str, shape: str, *, actor: Actor, from_now: bool = False
) -> ForwarderStatus:
    """The forwarder of this name; a new one begins with the first row, or with the next seal. Each new one is an event.

    One that is there goes on from its place, also to another destination.
    """
    about = {"destination": bare_url(destination), "shape": shape}
    async with conn.transaction():
        seal: int = await fetch_value(conn, LAST_SEAL) if from_now else 0
        first = {**about, "seal": seal, "rows": 0, "sent": 0}
        row = await fetch_row(conn, ADD, key=f"{PREFIX}{name}", first=_text(first), about=_text(about), by=actor.id)
        if row is not None:
            before = None if row["before"] is None else orjson.loads(row["before"])
            meta: dict[str, Any] = {**about, "from_seal": seal}
            if before is not None:
                changed = [field for field in about if before.get(field) != about[field]]
                meta = {"changes": {field: {"before": before.get(field), "after": about[field]} for field in changed}}
            action = "AUDIT_FORWARDER_ADDED" if before is None else "AUDIT_FORWARDER_EDITED"
            await record(conn, Event(action, "audit_forwarder", name, actor, level="warn", meta=meta))
    return await find_forwarder(conn, name)


async def store_place(conn: Connection, name: str, before: Place, after: Place, *, sent: int) -> None:
    """Move a forwarder on. Conflict if it is elsewhere by now: another one runs under its name."""
    moved = await fetch_value(
        conn,
        MOVE,
        key=f"{PREFIX}{name}",
        seal=before.seal,
        rows=before.rows,
        to_seal=after.seal,
        to_rows=after.rows,
        sent=sent,
    )
    if moved is None:
        raise Conflict(
            f"Another forwarder runs under the name {name!r}, or it was removed.",
            remedy="Run one at a time; give forwarders to other destinations a --name of their own.",
        )


async def remove_forwarder(conn: Connection, name: str, *, actor: Actor) -> None:
    """Forget a forwarder and its place."""
    async with conn.transaction():
        if await fetch_value(conn, REMOVE, key=f"{PREFIX}{name}") is None:
            raise _unknown(name)
        await record(conn, Event("AUDIT_FORWARDER_REMOVED", "audit_forwarder", name, actor, level="warn"))


async def find_forwarder(conn: Connection, name: str) -> ForwarderStatus:
    """One forwarder; NotFound if none has this name."""
    forwarders = [forwarder for forwarder in await list_forwarders(conn, name=name) if forwarder.name == name]
    if not forwarders:
        raise _unknown(name)
    return forwarders[0]


async def list_forwarders(conn: Connection, *, name: str | None = None) -> list[ForwarderStatus]:
    """The forwarders by name, with how far each is behind."""
    key = None if name is None else f"{PREFIX}{name}"
    return [_status(row) for row in await fetch(conn, LIST, prefix=PREFIX, key=key)]


async def require_forwarded(conn: Connection, through: int) -> None:
    """Refuse to go on while a forwarder has yet to send rows of the seals up to `through`. A place only moves on."""
    behind = await fetch(conn, BEFORE, prefix=PREFIX, through=through)
    if behind:
        names = [row["key"].removeprefix(PREFIX) for row in behind]
        places = [
            f"{name} has sent the rows up to seal {row['seal']}, and {row['rows']} more wait"
            for name, row in zip(names, behind, strict=True)
        ]
        raise Conflict(
            f"The rows up to seal {through} were not all forwarded: {'; '.join(places)}.",
            remedy="Let the forwarder catch up (`atlas audit forward --status`), or remove one that is no longer used:"
            f" `atlas audit forward --remove {names[0]}`, which is an event.",
        )


def _status(row: Any) -> ForwarderStatus:
    value = orjson.loads(row["value"])
    return ForwarderStatus(
        name=row["key"].removeprefix(PREFIX),
        destination=value["destination"],
        shape=value["shape"],
        place=Place(value["seal"], value["rows"]),
        sent=value["sent"],
        lag_rows=row["lag_rows"],
        lag_seconds=row["lag_seconds"],
        updated_at=row["updated_at"],
    )


def _text(value: dict[str, Any]) -> str:
    return orjson.dumps(value).decode()


def _unknown(name: str) -> NotFound:
    return NotFound("forwarder", name, remedy="`atlas audit forward --status` lists the forwarders.")
