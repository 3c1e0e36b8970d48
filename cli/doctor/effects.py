"""Checks whether calls of providers wait for a person to say whether they were made."""

from atlas.cli.doctor.finding import Diagnosis, finding
from atlas.db.pool import Connection
from atlas.engine.effects.find_effects import count_doubts


async def check_effects(conn: Connection) -> Diagnosis:
    """How many are unknown."""
    doubts = await count_doubts(conn)
    if not doubts:
        return finding("effects", "none is unknown")
    remedy = "`atlas effects list --state unknown` shows them; ask the providers, and settle them."
    return finding("effects", f"unknown whether made: {doubts:,}", warn=True, remedy=remedy)
