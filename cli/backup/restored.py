"""A home that was restored knows it: a file there names the backup, and whether the restore was completed."""

from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ValidationError

from atlas.database_home import database_home
from atlas.settings import Settings


class Restored(BaseModel):
    """The backup that a home was restored from."""

    taken_at: AwareDatetime
    complete: bool


def note_restore(settings: Settings, taken_at: AwareDatetime, *, complete: bool) -> None:
    """Write it down."""
    _file(settings).parent.mkdir(parents=True, exist_ok=True)
    _file(settings).write_text(Restored(taken_at=taken_at, complete=complete).model_dump_json() + "\n")


def restored_from(settings: Settings) -> Restored | None:
    """The backup that this home was restored from; None: it was not."""
    try:
        return Restored.model_validate_json(_file(settings).read_text())
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def _file(settings: Settings) -> Path:
    return database_home(settings) / "restored.json"
