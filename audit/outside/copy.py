"""Copies the newest checkpoint to each place of ATLAS_CHECKPOINT_COPIES, and stores how far each has come."""

from collections.abc import Sequence
from datetime import timedelta

import orjson

from atlas.audit.outside.places import Copy, CopyFailed, OutsidePlace
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_value, statement
from atlas.logs import RepeatedWarning, get_logger

CLAIM = statement("audit/outside/sql/claim_copies.sql")
DUE = statement("audit/outside/sql/due_copies.sql")
DONE = statement("audit/outside/sql/copy_done.sql")

log = get_logger("audit")
_failed = RepeatedWarning(log, "a checkpoint was not copied and is tried again")


async def copy_checkpoints(
    conn: Connection, places: Sequence[OutsidePlace], *, every: timedelta, pause: timedelta, by: str
) -> int:
    """Copy the newest checkpoint where a copy is due, and return to how many places. One process does it at a time.

    `every` is the time between two copies at a place, `pause` the time before another process tries again.
    """
    by_address = {place.address: place for place in places}
    if not by_address or await fetch_value(conn, CLAIM, pause=pause, by=by) is None:
        return 0
    copied = 0
    for row in await fetch(conn, DUE, places=list(by_address), every=every):
        error: str | None = None
        try:
            await by_address[row["place"]].store(Copy(row["log"], row["size"], row["note"]))
            copied += 1
        except CopyFailed as failure:
            error = failure.message
            _failed.log(place=row["place"], reason=error)
        value = orjson.dumps({"size": row["size"], "error": error}).decode()
        await fetch(conn, DONE, place=row["place"], value=value)
    return copied
