"""Reads copies of checkpoints that are kept outside the database: a file of notes, or a folder of such files."""

from pathlib import Path

from .signed_notes import split_notes

# Of the last day; a root covers all that came before it.
NEWEST = 100
ABANDONS = "\nabandons "


def copied_notes(folder: Path) -> list[Path]:
    """The files of copied checkpoints, oldest first."""
    return sorted(folder.glob("*.checkpoints"))


def read_copies(path: Path) -> list[str]:
    """The notes of a file, or of a folder: the last one of each day and the newest of the last day.

    And all that abandon a longer tree: without them, an older copy of that tree would contradict the audit log.
    """
    if not path.is_dir():
        return split_notes(path.read_text(encoding="utf-8"))
    days = [split_notes(file.read_text(encoding="utf-8")) for file in copied_notes(path)]
    newest = [1] * (len(days) - 1) + [NEWEST]
    return [
        note
        for notes, last in zip(days, newest, strict=False)
        for at, note in enumerate(notes)
        if len(notes) - at <= last or ABANDONS in note
    ]
