"""Pauses as a table, for `atlas pauses` and `atlas status`."""

from datetime import datetime
from typing import TYPE_CHECKING

from atlas.cli.terminal.output import table
from atlas.cli.terminal.text_table import TextTable

if TYPE_CHECKING:
    from atlas.models.system import Pause


def pauses_text(found: "list[Pause]") -> TextTable:
    """Pauses as a table."""
    rows = [
        (
            one.kind,
            one.name or one.target,
            one.tenant or "all",
            _at(one.since),
            _at(one.until),
            one.by,
            one.reason or "",
        )
        for one in found
    ]
    return table(("PAUSED", "NAME", "TENANT", "SINCE", "UNTIL", "BY", "REASON"), rows)


def _at(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"
