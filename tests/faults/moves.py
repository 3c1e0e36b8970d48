"""Restore and import under faults: they read what `backup` and `tenant-export` wrote."""

from pathlib import Path
from typing import Any

from atlas.cli.main import main as atlas
from tests.faults.commands import ACME, GATE, command, exists, once
from tests.faults.maintenance import equals
from tests.faults.program import Program

SUCCEEDED = "succeeded"


def main() -> None:
    """Restore, and leave a file when that has succeeded: an operator repeats it until then."""
    try:
        atlas()
    except SystemExit as end:
        if end.code:
            raise
    Path(SUCCEEDED).touch()


async def give_nothing(conn: Any) -> None:
    """An installation without tenants."""


JOBS = "select count(*) from atlas.jobs"

MOVES = (
    Program(
        "restore",
        ("restore", "backup"),
        None,
        "select true",
        (once("DATABASE_RESTORED"), equals(GATE, False, "the gate"), equals(JOBS, 1, "restored jobs")),
        file=SUCCEEDED,
        reads="backup",
        main="tests.faults.moves:main",
    ),
    command(
        "tenant-import",
        "tenant import acme.zip",
        give_nothing,
        exists("tenants", ACME),
        "TENANT_IMPORTED",
        reads="tenant-export",
        laws=(equals(JOBS, 1, "imported jobs"),),
    ),
)
