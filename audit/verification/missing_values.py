"""Finds personal values that were deleted although no event says that they were erased."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from atlas.audit.reader import Row
from atlas.audit.verifier.personal import COMMITMENT
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement

VALUES = statement("audit/verification/sql/verify_values.sql")
ERASED = statement("audit/verification/sql/verify_erased.sql")

# So many values without an explanation are kept before the events of erasures are read for them.
AT_ONCE = 20_000


@dataclass(slots=True)
class MissingValues:
    """The commitments of a walk whose values are gone. Most of an old audit log's may have been erased."""

    conn: Connection
    # Row id and commitment of those that no event explains.
    unexplained: list[tuple[int, str]] = field(default_factory=list)
    _gone: list[tuple[Row, str]] = field(default_factory=list)

    async def look_at(self, rows: Sequence[Row]) -> None:
        """Note which of the values that these rows commit to are not there."""
        commitments = [(row, commitment.decode()) for row in rows for commitment in COMMITMENT.findall(row.body)]
        if not commitments:
            return
        stored = await fetch(
            self.conn,
            VALUES,
            commitments=[bytes.fromhex(commitment) for _, commitment in commitments],
            entity_ids=[entity_of(row.body) for row, _ in commitments],
        )
        self._gone.extend(commitments[stored_row["nth"] - 1] for stored_row in stored)
        if len(self._gone) >= AT_ONCE:
            await self.finish()

    async def finish(self) -> None:
        """Read the events of erasures for those that were noted."""
        gone, self._gone = self._gone, []
        if not gone:
            return
        rows = await fetch(
            self.conn,
            ERASED,
            commitments=[commitment for _, commitment in gone],
            epochs=[_number(row.head[:4]) for row, _ in gone],
            xids=[str(int.from_bytes(row.head[4:12], "big")) for row, _ in gone],
            ids=[_number(row.head[12:20]) for row, _ in gone],
        )
        self.unexplained.extend((row["id"], row["commitment"]) for row in rows)


def _number(sent: bytes) -> int:
    return int.from_bytes(sent, "big", signed=True)


def entity_of(body: bytes) -> str | None:
    """The entity of an event; None where the bytes are not an event's."""
    try:
        return str(orjson.loads(body)["entity_id"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
