"""Which schedulers and APIs run, of which version: each reports itself for as long as it runs.

`atlas status` and `atlas doctor` show them beside the workers, so that an upgrade ends with no program of before.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Literal
from uuid import uuid4

import asyncpg

from atlas.db.pool import UNREACHABLE, Pool, borrow
from atlas.db.statements import fetch, statement
from atlas.logs import RepeatedWarning, get_logger
from atlas.version import __version__
from atlas.waiting import wait_for

RUNS = statement("engine/sql/program_runs.sql")
ENDED = statement("engine/sql/program_ended.sql")

# One that was not seen for three times as long is taken to have ended: see atlas.db.versions.
REPORT_SECONDS = 20.0
RESPONSE_SECONDS = 5.0
AWAY = (*UNREACHABLE, asyncpg.PostgresError)

log = get_logger("programs")


async def report_running(pool: Pool, kind: Literal["scheduler", "api"], stop: asyncio.Event) -> None:
    """Report that this program runs, until the stop event is set."""
    about = {"id": uuid4(), "kind": kind, "version": __version__, "hostname": socket.gethostname()}
    failed = RepeatedWarning(log, "the program could not be reported")
    while not stop.is_set():
        try:
            async with borrow(pool, within=RESPONSE_SECONDS) as conn:
                await fetch(conn, RUNS, **about)
        except AWAY as error:
            failed.log(reason=str(error) or type(error).__name__)
        await wait_for(stop, within=REPORT_SECONDS)
    with suppress(*AWAY):
        async with borrow(pool, within=RESPONSE_SECONDS) as conn:
            await fetch(conn, ENDED, id=about["id"])
