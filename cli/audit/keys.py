"""Seals the audit log before it is read, and finds the keys and checkpoint copies that verification uses."""

from collections.abc import Sequence
from pathlib import Path

from atlas.audit.keys import checkpoint_folder, public_key_files, public_keys, read_keys
from atlas.audit.sealing.checkpoint_copies import outside_notes
from atlas.audit.sealing.sealer import seal_first
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.cli.runtime import Atlas
from atlas.cli.terminal.output import warn
from atlas.errors import Refused, SettingsError
from atlas.settings import Settings


async def seal_and_warn(atlas: Atlas) -> None:
    """Seal and sign what is committed. A refusal is only a warning: rows that were sealed before can still be read."""
    refused = await seal_first(atlas.pool, atlas.settings)
    if refused is not None:
        warn(refused)


def verification_keys(settings: Settings, paths: Sequence[Path] | None) -> list[VerifierKey]:
    """The given public keys, or else the installation's own, those that were replaced included."""
    if not paths and not public_key_files(settings):
        raise Refused(
            "There is no public key to check the signatures of checkpoints with.",
            remedy="Give it with --key FILE; it is the file audit.pub beside the key that signs.",
        )
    return read_keys(paths) if paths else public_keys(settings)


def outside_copies(settings: Settings | None, paths: Sequence[Path] | None) -> list[str]:
    """The signed notes in the given files and folders, and in the installation's own folder of copies."""
    own = [checkpoint_folder(settings)] if settings is not None and checkpoint_folder(settings).is_dir() else []
    notes = [note for path in own for note in outside_notes(path)]
    for path in paths or ():
        outside = outside_notes(path)
        if not outside:
            # Otherwise verification would pass as if the copies agreed.
            raise SettingsError(
                f"{path} holds no copy of a checkpoint.",
                remedy="Name a file of signed notes, or a folder of *.checkpoints files.",
            )
        notes += outside
    return notes
