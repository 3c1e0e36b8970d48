"""Checks whether the forwarders of the audit log keep up."""

import asyncpg

from atlas.audit.forwarding.places import list_forwarders
from atlas.audit.verifier.format import counted
from atlas.cli.doctor.finding import Diagnosis, finding
from atlas.db.pool import Connection


async def check_forwarders(conn: Connection) -> list[Diagnosis]:
    """Compare the place of each forwarder with the last seal; nothing where there are none."""
    try:
        forwarders = await list_forwarders(conn)
    except asyncpg.PostgresError:
        return []  # The checks of migrations and roles say why the log cannot be read.
    if not forwarders:
        return []
    behind = [forwarder for forwarder in forwarders if forwarder.is_behind]
    lags = [
        f"{forwarder.name} is {counted(forwarder.lag_rows, 'row')} and {forwarder.lag_seconds:,.0f} s behind"
        for forwarder in behind
    ]
    return [
        finding(
            "audit forward",
            "; ".join(lags) or f"{counted(len(forwarders), 'forwarder')}, none of them behind",
            warn=bool(behind),
            remedy="Run `atlas audit forward DESTINATION --follow` and read its log; "
            "`atlas audit forward --remove NAME` forgets one that is no longer used.",
        )
    ]
