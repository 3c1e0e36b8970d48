"""Sealing before reading, and the keys and copies that verification stands on."""

from collections.abc import Sequence
from pathlib import Path

from atlas.audit import seal_first
from atlas.audit.checkpoint_copies import read_copies
from atlas.audit.keys import checkpoint_folder, public_key_files, public_keys, read_keys
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.cli.output import warn
from atlas.cli.runtime import Atlas
from atlas.errors import Refused, SettingsError
from atlas.settings import Settings


async def seal_and_tell(atlas: Atlas, *, without_key: bool = False) -> None:
    """Seal and sign what is committed. A refusal is told and stops nobody: what was sealed before can still be read."""
    refused = await seal_first(atlas.pool, atlas.settings, without_key=without_key)
    if refused is not None:
        warn(refused)


def verification_keys(settings: Settings, given: Sequence[Path] | None) -> list[VerifierKey]:
    """The public keys that were named, else the installation's own, with those of keys that were replaced."""
    if not given and not public_key_files(settings):
        raise Refused(
            "No public key is at hand to check the signatures of checkpoints.",
            remedy="Give it with --key FILE; it is the file audit.pub beside the key that signs.",
        )
    return read_keys(given) if given else public_keys(settings)


def outside_copies(settings: Settings | None, given: Sequence[Path] | None) -> list[str]:
    """The notes in the files and folders that were named, and in the installation's own folder of copies."""
    own = [checkpoint_folder(settings)] if settings is not None and checkpoint_folder(settings).is_dir() else []
    notes = [note for place in own for note in read_copies(place)]
    for place in given or ():
        found = read_copies(place)
        if not found:
            # Else the check would pass as if the copies agreed.
            raise SettingsError(
                f"{place} holds no copy of a checkpoint.",
                remedy="Name a file of signed notes, or a folder of *.checkpoints files.",
            )
        notes += found
    return notes
