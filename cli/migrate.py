"""`atlas migrate`: brings the database up to date, or says what that would lock."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.runtime import bring_up_to_date, execute, reach_database
from atlas.cli.terminal.output import Json, say
from atlas.db.failures import public_url
from atlas.db.migrations import LOCK_SECONDS
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.db.lock_plan import PlannedStep, TableLock

Check = Annotated[
    bool, typer.Option("--check", help="Change nothing: say what would be applied, and which tables that locks.")
]


def migrate(check: Check = False, json: Json = False) -> None:
    """Apply the migrations that are missing. It is safe to run at any time, also from several machines at once.

    With --check it ends with 1 if something is missing.
    """
    if check:
        _check(json=json)
        return
    url, applied = execute(_migrate)
    text = "\n".join(f"applied {name}" for name in applied) or "Nothing to do: all migrations are applied."
    say({"database": public_url(url), "applied": applied}, text, json=json)


async def _migrate(settings: Settings) -> tuple[str, list[str]]:
    async with reach_database(settings, may_create=True) as addresses:
        return addresses.owner_url, await bring_up_to_date(addresses.owner_url)


def _check(*, json: bool) -> None:
    url, steps = execute(_plan)
    document = {"database": public_url(url), "pending": steps, "max_lock_wait_seconds": LOCK_SECONDS}
    say(document, _text(steps), json=json)
    if steps:
        raise typer.Exit(1)


async def _plan(settings: Settings) -> "tuple[str, list[PlannedStep]]":
    # Imported here: only the check starts a server of its own.
    from atlas.db.lock_plan import plan_locks

    async with reach_database(settings) as addresses:
        return addresses.owner_url, await plan_locks(addresses.owner_url)


def _text(steps: "Sequence[PlannedStep]") -> str:
    if not steps:
        return "Nothing to do: all migrations are applied."
    lines = []
    for step in steps:
        lines.append(f"missing {step.name}")
        lines += [f"  {_lock_text(lock)}" for lock in step.locks] or ["  locks no table that is there now"]
    lines.append(f"Each lock is waited for {LOCK_SECONDS} s at most; then others go first, and it is tried again.")
    return "\n".join(lines)


def _lock_text(lock: "TableLock") -> str:
    time = f"about {lock.seconds:.0f} s" if lock.seconds >= 1 else "under a second"
    return f"{lock.table} ({lock.rows:,} rows, {lock.bytes / 1e6:,.1f} MB): {lock.who_waits}, {time}; {lock.work}"
