"""`atlas backup`: the database, the keys and the copies of the checkpoints, in one folder."""

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from atlas.audit.record import Event, record
from atlas.cli.backup.history import PartFiles, dump_history, open_snapshot
from atlas.cli.backup.manifest import DUMP, DUMP_WITHOUT_HISTORY, KEYS, Manifest, files_of, sha256_of
from atlas.cli.backup.progress import progress
from atlas.cli.runtime import caller, execute, open_atlas
from atlas.cli.terminal.output import Json, say
from atlas.db.pool import connect
from atlas.db.schema import schema_name
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import Conflict, Refused
from atlas.home.database_home import database_address
from atlas.postgres.dump import OWNER_REMEDY, dump
from atlas.settings import Settings
from atlas.version import __version__

BACKUP_FACTS = statement("cli/backup/sql/backup_facts.sql")
HIDDEN_TABLES = statement("cli/backup/sql/hidden_tables.sql")


def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the backup.")],
    base: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="An earlier backup: parts of history that have not changed since are reused."),
    ] = None,
    without_keys: Annotated[
        bool, typer.Option("--without-keys", help="Leave the private keys out, if you keep them elsewhere.")
    ] = False,
    json: Json = False,
) -> None:
    """Back up the database, the keys and the copies of the checkpoints. Atlas can keep running."""
    manifest, reused = execute(
        lambda settings: _back_up(settings, folder.absolute(), base, without_keys=without_keys, json=json)
    )
    size = sum((folder / name).stat().st_size for name in manifest.files)
    text = f"{folder} holds a backup of {manifest.taken_at:%Y-%m-%d %H:%M:%S} UTC, {size / 2**20:.1f} MiB."
    if base is not None:
        text += f"\n{len(reused)} of {len(manifest.history)} parts of history are those of {base}."
    if not without_keys:
        text += "\nIt holds the keys: keep it where only you can read it, or make backups with --without-keys."
    facts = {"folder": str(folder), "bytes": size, "reused": sorted(reused)}
    say({**facts, **manifest.model_dump(mode="json")}, text, json=json)


async def _back_up(
    settings: Settings, folder: Path, base: Path | None, *, without_keys: bool, json: bool
) -> tuple[Manifest, Collection[str]]:
    """The manifest, and the names of the files that were reused."""
    about: dict[str, Any] = {"folder": str(folder), "with_keys": not without_keys}
    before = None if base is None else (base, Manifest.load(base))
    async with open_atlas(settings, size=1) as atlas:
        with _draft(folder) as draft:
            await _require_all_rows(atlas.owner_url)
            async with atlas.pool.acquire() as conn:
                # Before the dump: a backup that is interrupted may have read everything.
                await record(conn, Event("DATABASE_BACKUP_BEGAN", "system", "database", caller(), meta=about))
                facts = await fetch_row(conn, BACKUP_FACTS)
            assert facts is not None
            # Before the database: what the signer remembers must not be ahead of the audit log in the dump.
            _copy_files(settings, draft, without_keys=without_keys)
            files = PartFiles(draft, before)
            with progress("backing up", json=json) as advance:
                await _dump(atlas.owner_url, draft, files, advance)
            manifest = _manifest(settings, draft, facts, files)
            manifest.write(draft)
            _sync(draft)
            draft.replace(folder)
        about |= {"audit_rows": manifest.audit_rows, "dump_sha256": manifest.files[manifest.dump]}
        if manifest.history:
            sums = "".join(f"{manifest.files[name]}  {name}\n" for name in sorted(manifest.parts))
            about |= {"parts": len(manifest.history), "parts_reused": len(files.reused)}
            about |= {"parts_sha256": sha256(sums.encode()).hexdigest()}
        async with atlas.pool.acquire() as conn:
            await record(conn, Event("DATABASE_BACKED_UP", "system", "database", caller(), meta=about))
        return manifest, files.reused.keys()


async def _dump(url: str, draft: Path, files: PartFiles, advance: Callable[[int], None]) -> None:
    """Dump the parts of history, and then everything else with what changed of them meanwhile, in one snapshot."""
    await dump_history(url, files, advance)
    async with open_snapshot(url) as snapshot:
        for part in list(files.missing(snapshot.parts)):
            await files.dump(part, url, snapshot, advance)
        files.forget_all_but(snapshot.parts)
        name = DUMP_WITHOUT_HISTORY if snapshot.parts else DUMP
        tables = [table for part in snapshot.parts for table in part.tables]
        await dump(url, schema_name(), draft / name, advance, snapshot=snapshot.id, without_rows_of=tables)


def _manifest(settings: Settings, draft: Path, facts: Mapping[str, Any], parts: PartFiles) -> Manifest:
    names = {str(path.relative_to(draft)): path for path in sorted(draft.rglob("*")) if path.is_file()}
    # What is reused is not read again.
    files = {name: parts.reused.get(name) or sha256_of(path) for name, path in names.items()}
    return Manifest(
        atlas=__version__,
        database=database_address(settings),
        schema_name=schema_name(),
        taken_at=facts["now"],
        audit_rows=facts["audit_rows"],
        files=files,
        history=parts.versions,
    )


def _copy_files(settings: Settings, draft: Path, *, without_keys: bool) -> None:
    for name, file in files_of(settings):
        if file.exists() and not (without_keys and file.suffix == ".key"):
            target = draft / name
            target.parent.mkdir(exist_ok=True, mode=0o700)
            shutil.copy(file, target)
            if target.parent.name == KEYS:
                target.chmod(0o600)


async def _require_all_rows(url: str) -> None:
    """Refuse a login that row-level security hides rows from: the dump would lack them."""
    conn = await connect(url, application="atlas backup")
    try:
        hidden = await fetch(conn, HIDDEN_TABLES, schema=schema_name())
        login = await conn.fetchval("select current_user")
    finally:
        await conn.close()
    if hidden:
        raise Refused(
            f"The login {login} does not see all rows of {hidden[0]['name']} and {len(hidden) - 1} other tables.",
            remedy=OWNER_REMEDY,
        )


@contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """A folder beside the one that was named: what is interrupted is not taken for a backup. What fails is removed."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} already exists.", remedy="Name a folder that does not exist yet.")
    draft = folder.with_name(f"{folder.name}.incomplete")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True, mode=0o700)
    try:
        yield draft
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _sync(folder: Path) -> None:
    """Wait until everything is on the disk."""
    for path in (*folder.rglob("*"), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
