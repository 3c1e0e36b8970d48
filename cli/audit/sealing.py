"""Sealing before reading, and the keys and copies that verification stands on."""

from collections.abc import Sequence
from pathlib import Path

from atlas.errors import Refused, SettingsError
from atlas.settings import Settings
from audit import seal_first
from audit.checkpoint import copied_notes
from audit.keys import checkpoint_folder, public_key_file, public_keys, read_key
from audit.verifier.notes import Key, split_notes
from cli.output import warn
from cli.runtime import Atlas

NEWEST = 100


async def seal_and_tell(atlas: Atlas, *, without_key: bool = False) -> None:
    """Seal and sign what is committed. A refusal is told and stops nobody: what was sealed before can still be read."""
    refused = await seal_first(atlas.pool, atlas.settings, without_key=without_key)
    if refused is not None:
        warn(refused)


def verification_keys(settings: Settings, given: Sequence[Path] | None) -> list[Key]:
    """The public keys that were named, else the installation's own, with those of keys that were replaced."""
    if not given and not public_key_file(settings).exists():
        raise Refused(
            "No public key is at hand to check the signatures of checkpoints.",
            remedy="Give it with --key FILE; it is the file audit.pub beside the key that signs.",
        )
    return [read_key(path) for path in given] if given else public_keys(settings)


def outside_copies(settings: Settings | None, given: Sequence[Path] | None) -> list[str]:
    """The notes in the files and folders that were named, and in the installation's own folder of copies."""
    own = [checkpoint_folder(settings)] if settings is not None and checkpoint_folder(settings).is_dir() else []
    try:
        notes = [note for place in own for note in _chosen(place)]
        for place in given or ():
            found = _chosen(place) if place.is_dir() else _notes(place)
            if not found:
                # Else the check would pass as if the copies agreed.
                raise SettingsError(
                    f"{place} holds no copy of a checkpoint.",
                    remedy="Name a file of signed notes, or a folder of *.checkpoints files.",
                )
            notes += found
        return notes
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Copies of checkpoints cannot be read: {error}.") from error


def _chosen(folder: Path) -> list[str]:
    """The last note of each day and the newest of the last one: a root vouches for all that came before it."""
    days = [_notes(file) for file in copied_notes(folder)]
    return [note for notes in days[:-1] for note in notes[-1:]] + [
        note for notes in days[-1:] for note in notes[-NEWEST:]
    ]


def _notes(file: Path) -> list[str]:
    return split_notes(file.read_text())
