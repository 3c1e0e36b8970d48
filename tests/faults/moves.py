"""Restore and import under faults: they read what `backup` and `tenant-export` wrote, and are repeated until they succeed."""

from pathlib import Path
from typing import Any

from atlas.cli.main import main as atlas
from tests.faults.commands import GATE, once
from tests.faults.maintenance import equals
from tests.faults.program import Program

SUCCEEDED = "succeeded"


def main() -> None:
    """Run the command, and leave a file when it has succeeded: an operator repeats it until then."""
    try:
        atlas()
    except SystemExit as end:
        if end.code:
            raise
    Path(SUCCEEDED).touch()


def move(name: str, arguments: str, *, reads: str, **options: object) -> Program:
    return Program(
        name,
        tuple(arguments.split()),
        done="select true",
        file=SUCCEEDED,
        reads=reads,
        main="tests.faults.moves:main",
        **options,  # type: ignore[arg-type]
    )


async def give_nothing(conn: Any) -> None:
    """An installation without tenants."""


JOBS = "select count(*) from atlas.jobs"

MOVES = (
    move(
        "restore",
        "restore backup",
        reads="backup",
        give=None,
        laws=(once("DATABASE_RESTORED"), equals(GATE, False, "the gate"), equals(JOBS, 1, "restored jobs")),
    ),
    move(
        "tenant-import",
        "tenant import acme.zip",
        reads="tenant-export",
        give=give_nothing,
        laws=(once("TENANT_IMPORTED"), equals(JOBS, 1, "imported jobs")),
    ),
)
