"""Restore and import under faults: they read what `backup` and `tenant-export` wrote."""

import re
from pathlib import Path
from typing import Any

from atlas.cli.main import main as atlas
from tests.faults.commands import ACME, GATE, command, exists, once
from tests.faults.maintenance import equals
from tests.faults.points import normalized
from tests.faults.program import Program

SUCCEEDED = "succeeded"
# What pg_restore prints is in upper case: more than a thousand statements of a few kinds, all in one transaction.
_KIND = re.compile(r"(?:[A-Z]{3,}\b ?)+(?:pg_catalog\.\w+)?")


def kind_of(sql: str) -> str:
    """The kind of a statement of pg_restore, such as CREATE INDEX; of others their text."""
    text = normalized(sql)
    kind = _KIND.match(text)
    return text if kind is None else kind[0].strip()


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
        alike=kind_of,
        samples=3,
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
