"""`atlas audit export`: the audit log as a file that verifies without a database."""

import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from atlas.audit.exports.export import Extract, export
from atlas.cli.access.tenant_names import tenant_id
from atlas.cli.audit.keys import seal_and_warn
from atlas.cli.connection.connect import either
from atlas.cli.runtime import caller, open_atlas
from atlas.cli.terminal.output import Json, say
from atlas.cli.terminal.parameters import AGO, read_time
from atlas.cli.terminal.stdio import discard_stdout
from atlas.db.replica import caught_up
from atlas.errors import SettingsError
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

Tenant = Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help=f"From this time on, {AGO}.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")]


def export_log(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; stdout if not given.")] = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    personal: Annotated[
        bool, typer.Option("--personal", help="Include the personal values that were not erased.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the audit log to a file that `atlas audit verify --export` checks without a database."""
    if json and out is None:
        raise typer.BadParameter("is needed with --json: stdout carries the document", param_hint="--out")
    period = _since(since), _until(until)

    async def work(settings: Settings) -> "Exported":
        async with open_atlas(settings) as atlas, atlas.pool.acquire() as conn:
            await seal_and_warn(atlas)
            extract = Extract(await tenant_id(conn, tenant), *period, personal)
            lines = export(conn, extract, actor=caller(), reading=partial(caught_up, settings))
            async with _target(out) as file, aclosing(lines):
                return await _write(lines, file)

    async def over_http(atlas: "AtlasClient") -> "Exported":
        lines = atlas.export_audit_log(since=period[0], until=period[1], personal=personal)
        async with _target(out) as file:
            return await _write(lines, file)

    done = either(work, over_http, tenant=tenant)
    if out is not None:
        message = f"{done.bytes / 2**20:.1f} MiB in {done.lines} lines were written to {out}."
        say({"file": str(out), "lines": done.lines, "bytes": done.bytes}, message, json=json)


@dataclass(slots=True)
class Exported:
    """How much was written."""

    lines: int = 0
    bytes: int = 0


async def _write(lines: AsyncIterator[bytes], file: BinaryIO) -> Exported:
    done = Exported()
    async for piece in lines:
        try:
            file.write(piece)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(error) from error
        done.lines += piece.count(b"\n")
        done.bytes += len(piece)
    return done


@asynccontextmanager
async def _target(out: Path | None) -> AsyncIterator[BinaryIO]:
    """Standard output, or a file that gets its name only when it is complete.

    A path that exists and is not a regular file (a pipe, a device, a link) is written to and never replaced.
    """
    if out is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # The reader closed the pipe. There is no one to report an error to.
            discard_stdout()
            raise typer.Exit(1) from None
        return
    if _is_special(out):
        try:
            with _opened(out) as file:
                yield file
        except BrokenPipeError:
            raise typer.Exit(1) from None
        return
    scratch = out.with_name(f".{out.name}.part")
    try:
        with _opened(scratch) as file:
            yield file
        scratch.replace(out)
    finally:
        scratch.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    return path.is_symlink() or (path.exists() and not path.is_file())


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> SettingsError:
    return SettingsError(f"The export cannot be written: {error}.", remedy="Name another file with --out.")


def _since(since: str | None) -> datetime | None:
    return None if since is None else read_time("--since", since)


def _until(until: str | None) -> datetime | None:
    return None if until is None else read_time("--until", until)
