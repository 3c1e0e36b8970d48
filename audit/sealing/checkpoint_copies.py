"""Reads the copies of checkpoints outside the database, for a verification."""

from pathlib import Path

from atlas.audit.verifier.copies import read_copies
from atlas.errors import SettingsError


def outside_notes(path: Path) -> list[str]:
    """The notes of a file or a folder that a verification compares with the audit log."""
    try:
        return read_copies(path)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Copies of checkpoints cannot be read: {error}.") from error
