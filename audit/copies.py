"""The copies of checkpoints outside the database, as a verification reads them."""

from pathlib import Path

from atlas.errors import SettingsError
from audit.checkpoint import copied_notes
from audit.verifier.notes import split_notes

# Of the last day; a root vouches for all that came before it.
NEWEST = 100


def read_copies(place: Path) -> list[str]:
    """The notes of a file, or of a folder: the last one of each day and the newest of the last day."""
    try:
        if not place.is_dir():
            return split_notes(place.read_text())
        days = [split_notes(file.read_text()) for file in copied_notes(place)]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Copies of checkpoints cannot be read: {error}.") from error
    return [note for notes in days[:-1] for note in notes[-1:]] + [
        note for notes in days[-1:] for note in notes[-NEWEST:]
    ]
