"""What a backup consists of, in the file `backup.json` of its folder."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ValidationError

from atlas.audit.keys import checkpoint_folder
from atlas.audit.keys import key_file as audit_key_file
from atlas.engine.secrets.key import key_file as secret_key_file
from atlas.errors import AtlasError
from atlas.settings import Settings

MANIFEST = "backup.json"
DUMP = "database.dump"
# The dump beside files of history: releases that know of no such files find no dump, and restore nothing.
DUMP_WITHOUT_HISTORY = "without_history.dump"
KEYS, CHECKPOINTS, HISTORY = "keys", "checkpoints", "history"


class Unusable(AtlasError):
    """The folder is not a backup, or not as it was made."""


class Manifest(BaseModel):
    """When it was made, of what, and the SHA-256 of every file."""

    atlas: str
    database: str
    schema_name: str
    taken_at: AwareDatetime
    audit_rows: int
    files: dict[str, str]
    # The parts of history, each with the version that its file has.
    history: dict[str, str | None] = {}

    @property
    def dump(self) -> str:
        """The name of the dump of the database, with or without history."""
        return DUMP_WITHOUT_HISTORY if self.history else DUMP

    @property
    def parts(self) -> list[str]:
        """The names of the files of history."""
        return [f"{HISTORY}/{name}.dump" for name in self.history]

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest of a backup whose files are as they were made."""
        manifest = cls.load(folder)
        for name, expected in manifest.files.items():
            if not (folder / name).is_file() or sha256_of(folder / name) != expected:
                raise Unusable(f"{folder / name} is missing or was changed.", remedy="Use another backup.")
        lacking = {manifest.dump, *manifest.parts} - manifest.files.keys()
        if lacking:
            raise Unusable(f"{folder / MANIFEST} lacks {min(lacking)}.", remedy="Use another backup.")
        return manifest

    @classmethod
    def load(cls, folder: Path) -> "Manifest":
        """The manifest alone."""
        try:
            return cls.model_validate_json((folder / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Unusable(f"{folder} is not a backup: it has no {MANIFEST}.", remedy="Name its folder.") from None
        except (ValidationError, UnicodeDecodeError) as error:
            raise Unusable(f"{folder / MANIFEST} cannot be read.", remedy="Use another backup.") from error


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def files_of(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The files beside the database: where each is, and its name in a backup."""
    secret, audit = secret_key_file(settings), audit_key_file(settings)
    yield f"{KEYS}/secret.key", secret
    # The key with its public half and the tree it signed last, and the keys before it.
    yield f"{KEYS}/audit.key", audit
    if audit.parent.is_dir():
        for file in sorted(audit.parent.iterdir()):
            rest = file.name.removeprefix(f"{audit.stem}.")
            if file.is_file() and rest != file.name and file != audit and not rest.endswith(("lock", "new")):
                yield f"{KEYS}/audit.{rest}", file
    copies = checkpoint_folder(settings)
    if copies.is_dir():
        for file in sorted(copies.glob("*.checkpoints")):
            yield f"{CHECKPOINTS}/{file.name}", file
