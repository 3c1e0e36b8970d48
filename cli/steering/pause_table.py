"""Pauses as a table, for `atlas pauses` and `atlas status`."""

from datetime import datetime
from typing import TYPE_CHECKING

from atlas.cli.terminal.output import table
from atlas.cli.terminal.text_table import TextTable

if TYPE_CHECKING:
    from atlas.models.system import Pause


def pauses_text(pauses: "list[Pause]") -> TextTable:
    """Pauses as a table."""
    rows = [
        (
            pause.kind,
            pause.name or pause.target,
            pause.tenant or "all",
            _at(pause.since),
            _at(pause.until),
            pause.by,
            pause.reason or "",
        )
        for pause in pauses
    ]
    return table(("PAUSED", "NAME", "TENANT", "SINCE", "UNTIL", "BY", "REASON"), rows)


def _at(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"
