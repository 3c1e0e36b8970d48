"""Reads the copies of checkpoints outside the database, for a verification."""

from pathlib import Path

from atlas.audit.checkpoint import copied_notes
from atlas.audit.verifier.signed_notes import split_notes
from atlas.errors import SettingsError

# Of the last day; a root covers all that came before it.
NEWEST = 100
ABANDONS = "\nabandons "


def read_copies(path: Path) -> list[str]:
    """The notes of a file, or of a folder: the last one of each day and the newest of the last day.

    And all that abandon a longer tree: without them, an older copy of that tree would contradict the audit log.
    """
    try:
        if not path.is_dir():
            return split_notes(path.read_text())
        days = [split_notes(file.read_text()) for file in copied_notes(path)]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Copies of checkpoints cannot be read: {error}.") from error
    newest = [1] * (len(days) - 1) + [NEWEST]
    return [
        note
        for notes, last in zip(days, newest, strict=False)
        for at, note in enumerate(notes)
        if len(notes) - at <= last or ABANDONS in note
    ]
