"""Leaves the last connections of a server to operators: programs do not take them.

A program asks after each connection that it opens how many are left, and closes it again if these are too few. So
`atlas offline` finds one while programs would take all there are. Other applications on the same server may still take
them: docs/settings.md says how to have the server itself reserve some.
"""

import asyncio

import asyncpg

from atlas.db.pool import CONNECT_SECONDS, Connection
from atlas.db.statements import fetch_value, statement

FREE_CONNECTIONS = statement("atlas/db/sql/free_connections.sql")
# For a command and the one that looks at what it does. Programs that connect at the same moment may take one more.
OPERATOR_CONNECTIONS = 3


async def leave_some_free(conn: Connection) -> None:
    """Refuse a new connection of a program as the server would, if it is one of the last."""
    async with asyncio.timeout(CONNECT_SECONDS):
        free = await fetch_value(conn, FREE_CONNECTIONS)
    if free < OPERATOR_CONNECTIONS:
        raise asyncpg.TooManyConnectionsError(f"the last {OPERATOR_CONNECTIONS} connections are left to operators")
