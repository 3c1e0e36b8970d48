"""`atlas restore`: a backup into a new ATLAS_HOME, or into a database without Atlas. It stays offline afterwards."""

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import asyncpg
import typer

from atlas.audit.keys import checkpoint_folder
from atlas.audit.keys import key_file as audit_key_file
from atlas.audit.record import Event, record
from atlas.cli.audit.maintain import start_epoch
from atlas.cli.backup.manifest import CHECKPOINTS, KEYS, Manifest, sha256_of
from atlas.cli.backup.progress import progress
from atlas.cli.backup.restored import note_restore, remove_if_failed, restored_from
from atlas.cli.backup.roles import make_roles, warn_of_lost_grants
from atlas.cli.connection.needs_database import require_database
from atlas.cli.runtime import bring_up_to_date, caller, execute, open_atlas, reach_database
from atlas.cli.terminal.output import Json, say, warn
from atlas.db.lost_response import end_sessions
from atlas.db.pool import Connection, connect
from atlas.db.schema import schema_name
from atlas.db.statements import fetch, statement
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.secrets.key import key_file as secret_key_file
from atlas.errors import AtlasError, Conflict, DatabaseError
from atlas.home.private_folder import make_private
from atlas.postgres.cluster import has_embedded
from atlas.postgres.dump import RESTORE_SESSIONS
from atlas.postgres.dump import restore as restore_dump
from atlas.settings import Settings

SCHEMA_CONTENTS = statement("cli/backup/sql/schema_contents.sql")


def restore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the backup.")],
    check: Annotated[
        bool, typer.Option("--check", help="Check every file of the backup, and restore nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Restore a backup into a new ATLAS_HOME, or into the database of DATABASE_URL, which must not hold Atlas yet.

    Atlas is offline afterwards: jobs that were queued in the backup may have run since.
    """
    if check:
        manifest = execute(lambda _: _check(folder))
        text = f"{folder} is whole: its {len(manifest.files)} files are as they were made."
        say({"checked": str(folder), **manifest.model_dump(mode="json")}, text, json=json)
        return
    manifest = execute(lambda settings: _restore(settings, folder, json=json))
    text = (
        f"The backup of {manifest.taken_at:%Y-%m-%d %H:%M:%S} UTC is restored, and Atlas is offline.\n"
        "Jobs that were queued or running then may have run since. Look at `atlas jobs list`, cancel those that must\n"
        "not run again, then run `atlas online`."
    )
    say({"restored": str(folder), **manifest.model_dump(mode="json")}, text, json=json)


async def _check(folder: Path) -> Manifest:
    return Manifest.read(folder)


async def _restore(settings: Settings, folder: Path, *, json: bool) -> Manifest:
    require_database(settings)
    if settings.database_url is not None:
        # Nothing else can be relied on: the roles that the programs' login needs come with the restore.
        settings = replace(settings, database_url=settings.atlas_owner_url or settings.database_url)
    manifest = Manifest.read(folder)
    if manifest.schema_name != schema_name():
        raise Conflict(
            f"The backup is of the schema {manifest.schema_name}; ATLAS_SCHEMA is {schema_name()}.",
            remedy=f"Set ATLAS_SCHEMA={manifest.schema_name}.",
        )
    with remove_if_failed(settings) as added:
        make_private(settings.home)
        files = _targets(settings, manifest)
        before = restored_from(settings)
        again = before is not None and not before.complete
        if not again:
            if settings.embedded and has_embedded(settings.home):
                raise Conflict(f"{settings.home} already holds a database.", remedy="Set ATLAS_HOME to a new folder.")
            _require_no_other_files(folder, files)
        added += [target for target in files.values() if again or not target.exists()]
        note_restore(settings, manifest.taken_at, complete=False)
        _copy_files(folder, files)
        async with reach_database(settings, may_create=True) as addresses:
            await _restore_database(addresses.owner_url, folder, manifest, again=again, json=json)
            await _go_offline(settings, manifest)
    await _begin_epoch(settings, manifest)
    note_restore(settings, manifest.taken_at, complete=True)
    return manifest


def _copy_files(folder: Path, files: dict[str, Path]) -> None:
    for name, target in files.items():
        make_private(target.parent)
        shutil.copy(folder / name, target)
        if name.startswith(f"{KEYS}/"):
            target.chmod(0o600)


def _targets(settings: Settings, manifest: Manifest) -> dict[str, Path]:
    """Where each file of the backup beside the database belongs."""
    audit, targets = audit_key_file(settings), {}
    for name in manifest.files:
        kind, _, file = name.partition("/")
        if kind == CHECKPOINTS:
            targets[name] = checkpoint_folder(settings) / file
        elif name == f"{KEYS}/secret.key":
            targets[name] = secret_key_file(settings)
        elif kind == KEYS:
            targets[name] = audit.with_name(audit.stem + file.removeprefix("audit"))
    return targets


def _require_no_other_files(folder: Path, files: dict[str, Path]) -> None:
    """Refuse to replace a key or a checkpoint that is another's."""
    for name, target in files.items():
        if target.exists() and sha256_of(target) != sha256_of(folder / name):
            raise Conflict(
                f"{target} exists and is not the one of the backup.",
                remedy="Move it away, or set ATLAS_HOME to a new folder.",
            )


async def _restore_database(url: str, folder: Path, manifest: Manifest, *, again: bool, json: bool) -> None:
    """Restore dump and history into an empty schema, and bring it up to date. Where that fails, it is as before."""
    conn = await connect(url, application="atlas restore")
    try:
        is_new = await _make_room(conn, url, again=again)
        try:
            await make_roles(conn, folder / manifest.dump)
            with progress("restoring", json=json) as advance:
                parts = [folder / name for name in manifest.parts]
                await restore_dump(url, folder / manifest.dump, advance, parts=parts)
            await bring_up_to_date(url)
            await _secure_tables(conn)
        except BaseException:
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError):
                await _empty(conn)
                if is_new:
                    await conn.execute(f"drop schema {schema_name()}")
            raise
    finally:
        await conn.close()


async def _secure_tables(conn: Connection) -> None:
    """Let the roles of this server own the tables and see their rows, as after a migration."""
    try:
        await conn.execute(f"select {schema_name()}.secure_tables()")
    except asyncpg.PostgresError as error:
        raise DatabaseError(
            f"The tables were restored, but not the rights on them: {error}.",
            remedy="Fix what it names, often a missing privilege, and run `atlas restore` again. Nothing was kept.",
        ) from error


async def _make_room(conn: Connection, url: str, *, again: bool) -> bool:
    """Make an empty schema; returns whether there was none. Only contents of an interrupted restore are dropped."""
    schema = schema_name()
    if await conn.fetchval("select to_regnamespace($1)", schema) is None:
        try:
            await conn.execute(f"create schema {schema}")
        except asyncpg.InsufficientPrivilegeError as error:
            login = await conn.fetchval("select current_user")
            raise Conflict(
                f"The login {login} may not create the schema {schema}: {error}.",
                remedy=f'Have an administrator run: create schema {schema} authorization "{login}";',
            ) from error
        return True
    if again:
        # That of the restore before may have outlived it, and keep its locks.
        await end_sessions(await connect(url), RESTORE_SESSIONS)
        await _empty(conn)
    elif await fetch(conn, SCHEMA_CONTENTS, schema=schema):
        raise Conflict(
            f"The database already has a schema {schema}.",
            remedy="Restore into another database; or drop the schema first if nothing in it is needed.",
        )
    return False


async def _empty(conn: Connection) -> None:
    async with conn.transaction():
        # What goes along with something else is no news.
        await conn.execute("set local client_min_messages = error")
        for row in await fetch(conn, SCHEMA_CONTENTS, schema=schema_name()):
            await conn.execute(row["drop"])


async def _go_offline(settings: Settings, manifest: Manifest) -> None:
    """Switch Atlas off, and record the restore in the same transaction."""
    facts = {"taken_at": manifest.taken_at.isoformat(), "audit_rows": manifest.audit_rows, "atlas": manifest.atlas}
    reason = f"restored from the backup of {manifest.taken_at:%Y-%m-%d %H:%M} UTC"
    async with open_atlas(settings, size=1) as atlas, atlas.pool.acquire() as conn, conn.transaction():
        await switch(conn, online=False, actor=caller(), reason=reason)
        event = Event("DATABASE_RESTORED", "system", "database", caller(), meta=facts)
        await record(conn, event)
        await warn_of_lost_grants(conn)


async def _begin_epoch(settings: Settings, manifest: Manifest) -> None:
    """Let the audit log go on in this cluster. If it needs attention, say so: the restore itself is complete."""
    try:
        await start_epoch(settings, reason=f"restored from the backup of {manifest.taken_at.isoformat()}")
    except AtlasError as error:
        warn(AtlasError(f"No new epoch of the audit log was begun: {error.message}", remedy=error.remedy))
