"""A home that was restored knows it: a file there names the backup, and whether the restore was completed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ValidationError

from atlas.home.database_home import FILE as OWNER_FILE
from atlas.home.database_home import database_home
from atlas.postgres.cluster import has_embedded, remove_embedded
from atlas.settings import Settings


class Restored(BaseModel):
    """The backup that a home was restored from."""

    taken_at: AwareDatetime
    complete: bool


def note_restore(settings: Settings, taken_at: AwareDatetime, *, complete: bool) -> None:
    """Write it down."""
    _file(settings).parent.mkdir(parents=True, exist_ok=True)
    _file(settings).write_text(
        Restored(taken_at=taken_at, complete=complete).model_dump_json() + "\n", encoding="utf-8"
    )


def restored_from(settings: Settings) -> Restored | None:
    """The backup that this home was restored from; None: it was not."""
    try:
        return Restored.model_validate_json(_file(settings).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


@contextmanager
def remove_if_failed(settings: Settings) -> Iterator[list[Path]]:
    """Remove what a restore that fails has added: the paths in the list, its note, and the embedded database.

    What was there before stays.
    """
    home, had_home = settings.home, settings.home.is_dir()
    had_owner = (home / OWNER_FILE).exists()
    before = restored_from(settings)
    had_database = has_embedded(home) and (before is None or before.complete)
    added: list[Path] = []
    try:
        yield added
    except BaseException:
        for path in added:
            path.unlink(missing_ok=True)
        if added:
            _file(settings).unlink(missing_ok=True)
        if settings.embedded and not had_database:
            remove_embedded(home)
        if not had_owner:
            (home / OWNER_FILE).unlink(missing_ok=True)
        for folder in [*{path.parent for path in added}, *([] if had_home else [home])]:
            with suppress(OSError):  # it holds something else
                folder.rmdir()
        raise


def _file(settings: Settings) -> Path:
    return database_home(settings) / "restored.json"
