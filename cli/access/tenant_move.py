"""`atlas tenant export` and `atlas tenant import`: move a tenant to another installation."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.connection.needs_database import require_database
from atlas.cli.runtime import Atlas, caller, execute, open_atlas
from atlas.cli.terminal.output import Json, say, warn
from atlas.db.failures import public_url
from atlas.db.pool import Connection
from atlas.engine.tenants.tenants import find_tenant
from atlas.errors import AtlasError, Conflict, Refused
from atlas.models.tenants import Tenant
from atlas.settings import Settings

# What moves a tenant is imported where it is needed: the other commands of tenants start without it.
if TYPE_CHECKING:
    from rich.status import Status

    from atlas.engine.tenants.move_export import Progress, TenantFile

Reason = Annotated[str | None, typer.Option(help="Why, for everyone who reads the audit log.")]


def export_tenant(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by slug or id.")],
    file: Annotated[Path | None, typer.Argument(help="The file to write; it must not exist.")] = None,
    to: Annotated[
        str | None,
        typer.Option(help="The tenant's new address, such as https://cell2.example, for refused callers."),
    ] = None,
    reason: Reason = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Keep the tenant here instead. Only if it was not imported elsewhere.")
    ] = False,
    json: Json = False,
) -> None:
    """Export a tenant to a file that another installation imports. The tenant is paused and frozen here.

    If it is interrupted, run it again. Nothing of the tenant changes here until you remove it or cancel the move.
    """
    if cancel == (file is not None):
        raise typer.BadParameter("name a file to write, or --cancel", param_hint="FILE")
    if file is None:
        _cancel(tenant, reason, json=json)
        return
    if file.exists():
        raise Conflict(f"{file} already exists.", remedy="Name a file that does not exist yet.")
    if not os.access(file.parent, os.W_OK):
        raise Conflict(f"No file can be written to {file.parent}.", remedy="Name a folder that exists and is yours.")

    async def work(settings: Settings) -> tuple[Tenant, "TenantFile"]:
        _require_database(settings)
        async with open_atlas(settings) as atlas:
            return await _export(atlas, tenant, file, to, reason, json=json)

    moved, done = execute(work)
    rows = f"{done.manifest.rows:,} rows and {done.manifest.audit[-1].rows:,} of its audit log"
    message = (
        f"Tenant {moved.slug} is in {file}: {rows}, {done.bytes / 2**20:.1f} MiB.\n"
        f"Import it there with `atlas tenant import`, then remove it here with `atlas tenant remove {moved.slug}`."
    )
    say({"file": str(file), **_document(done)}, message, json=json)


def import_tenant(
    file: Annotated[Path, typer.Argument(help="The file that `atlas tenant export` wrote.")],
    key: Annotated[
        list[Path] | None,
        typer.Option("--key", help="The public key that signed its audit log; may be repeated. Else the file's own."),
    ] = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Import a tenant that another installation exported. It arrives paused.

    The file and the tenant's audit log are verified before anything is written. All of it is imported, or nothing.
    """

    async def work(settings: Settings) -> tuple[Tenant, "TenantFile"]:
        from atlas.audit.keys import read_keys
        from atlas.audit.sealing.sealer import seal_first
        from atlas.engine.secrets.key import secret_key
        from atlas.engine.tenants.move_import import TenantImport

        _require_database(settings)
        with _progress("Reading", json=json) as step:
            opened = TenantImport(file, step)
            opened.check(read_keys(key) if key else ())
        async with open_atlas(settings) as atlas, atlas.pool.acquire() as conn:
            with _progress("Importing", json=json) as step:
                opened = TenantImport(file, step)
                tenant = await opened.run(conn, actor=caller(), secret_keys=[secret_key().id], reason=reason)
            await seal_first(atlas.pool, atlas.settings)
        return tenant, opened.read

    moved, done = execute(work)
    rows = f"{done.manifest.rows:,} rows and {done.manifest.audit[-1].rows:,} of its audit log"
    message = (
        f"Tenant {moved.slug} is here, with {rows}.\nIt is paused: start it with `atlas resume tenant {moved.slug}`."
    )
    say(_document(done), message, json=json)


def _require_database(settings: Settings) -> None:
    """A move is done on the database. One beside ATLAS_URL may be that of another installation, so it is named."""
    require_database(settings)
    if settings.atlas_url is not None and settings.database_url is not None:
        message = (
            f"ATLAS_URL is not used: this command moves a tenant of the database {public_url(settings.database_url)}."
        )
        warn(AtlasError(message, remedy="Unset DATABASE_URL if the tenant is of another installation."))


async def _export(
    atlas: Atlas, named: str, file: Path, to: str | None, reason: str | None, *, json: bool
) -> tuple[Tenant, "TenantFile"]:
    from atlas.audit.sealing.sealer import seal_first
    from atlas.engine.tenants.move import begin_move, record_export
    from atlas.engine.tenants.move_export import TenantFileWriter

    async with atlas.pool.acquire() as conn:
        tenant = await find_tenant(conn, named)
        keys = await _signers(atlas, conn)
        with _status(f"Moving {tenant.slug}", json=json) as status:
            async for waited in begin_move(conn, tenant, actor=caller(), to=to, reason=reason):
                status.update(f"Moving {tenant.slug}: {waited}")
        with _progress("Writing", json=json) as step:
            writer = TenantFileWriter(conn, tenant, keys, step)
            done = await writer.write(file, lambda: seal_first(atlas.pool, atlas.settings))
        facts = {"digest": done.digest, "rows": done.manifest.rows, "to": to, "reason": reason}
        await record_export(conn, tenant, actor=caller(), facts=facts)
    return tenant, done


async def _signers(atlas: Atlas, conn: Connection) -> list[str]:
    """The public keys of the audit log. The first key is made where nothing was ever sealed."""
    from atlas.audit.keys import public_key_files, signing_key
    from atlas.audit.verification.verify import never_sealed

    if not public_key_files(atlas.settings):
        if await never_sealed(conn) is None:
            raise Refused(
                "There is no public key to check the audit log with.",
                remedy="Run it where the key of the audit log is, or copy audit.pub to where that would be.",
            )
        signing_key(atlas.settings)
    return [line for path in public_key_files(atlas.settings) for line in path.read_text(encoding="utf-8").split()]


def _cancel(named: str, reason: str | None, *, json: bool) -> None:
    async def work(settings: Settings) -> Tenant:
        from atlas.engine.tenants.move import cancel_move

        _require_database(settings)
        async with open_atlas(settings) as atlas, atlas.pool.acquire() as conn:
            return await cancel_move(conn, await find_tenant(conn, named), actor=caller(), reason=reason)

    tenant = execute(work)
    message = f"Tenant {tenant.slug} stays here. It is paused: start it with `atlas resume tenant {tenant.slug}`."
    say(tenant, message, json=json)


@contextmanager
def _progress(what: str, *, json: bool) -> "Iterator[Progress]":
    """Shows how far it is on stderr, if that is a terminal."""
    with _status(what, json=json) as status:
        yield lambda name, rows: status.update(f"{what} {name}: {rows:,} rows")


@contextmanager
def _status(what: str, *, json: bool) -> "Iterator[Status]":
    # Imported here: other commands draw no progress.
    from rich.console import Console

    with Console(stderr=True, quiet=json or not sys.stderr.isatty()).status(what) as status:
        yield status


def _document(done: "TenantFile") -> dict[str, Any]:
    manifest = done.manifest
    return {
        "tenant_id": manifest.tenant_id,
        "slug": manifest.slug,
        "digest": done.digest,
        "bytes": done.bytes,
        "rows": {name: table.rows for name, table in manifest.tables.items() if table.rows},
        "audit_rows": [part.rows for part in manifest.audit],
    }
