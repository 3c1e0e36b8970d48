"""`atlas audit verify` and `atlas audit proof`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import asyncpg
import orjson
import typer

from atlas.audit.exports.archives import Archive, read_archive
from atlas.audit.exports.proof import prove, prove_consistency
from atlas.audit.guards import check_guards
from atlas.audit.keys import key_file, read_keys
from atlas.audit.sealing.sealer import seal_first
from atlas.audit.verification.crosscheck import cross_check
from atlas.audit.verification.verdict import record_verdict
from atlas.audit.verification.verify import LastVerified, never_sealed, unnamed_key, verify
from atlas.audit.verifier.format import Finding, Report, counted
from atlas.audit.verifier.proof import check_proof
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.cli.audit.keys import outside_copies, seal_and_warn, verification_keys
from atlas.cli.connection.connect import either
from atlas.cli.connection.needs_database import NotOverHttp
from atlas.cli.runtime import Atlas, caller, open_atlas
from atlas.cli.terminal.output import Json, print_json, say, warn
from atlas.db.pool import Connection
from atlas.db.replica import read_first
from atlas.errors import AtlasError, SettingsError
from atlas.home.database_home import database_home
from atlas.settings import Settings

if TYPE_CHECKING:
    from rich.text import Text

    from atlas.client import AtlasClient

Keys = Annotated[list[Path] | None, typer.Option("--key", help="A public key; may be repeated.")]
ALL = 2**31 - 1
Advance = Callable[[int, int], None]


def verify_log(
    export: Annotated[Path | None, typer.Option(help="Check this export; needs no database.")] = None,
    key: Keys = None,
    checkpoints: Annotated[
        list[Path] | None, typer.Option(help="Copies of checkpoints that are kept elsewhere: a file or a folder.")
    ] = None,
    incremental: Annotated[
        bool, typer.Option("--incremental", help="Only rows sealed since the last verification without findings.")
    ] = False,
    state: Annotated[
        bool, typer.Option("--state", help="Compare the tables with the audit log too, all of them.")
    ] = False,
    json: Json = False,
) -> None:
    """Check that nothing was changed, removed, inserted or reordered. Exit status 1 on any finding."""
    if export is not None:
        if state:
            raise typer.BadParameter("needs the database: an export holds no tables", param_hint="--state")
        if not key:
            raise typer.BadParameter("is needed: the public key to check the export with", param_hint="--key")
        report, archive = verify_file(export, read_keys(key), outside_copies(None, checkpoints), json=json)
        more = {} if archive is None else {"archive": archive}
    else:
        more = {}
        report = either(
            lambda settings: _verify_database(
                settings, key, checkpoints, incremental=incremental, state=state, json=json
            ),
            lambda atlas: _verify_over_http(atlas, has_options=bool(key or checkpoints or incremental or state)),
        )
    say({**_document(report), **more}, _summary(report), json=json)
    if not report.ok:
        raise typer.Exit(1)


def proof(
    id: Annotated[int | None, typer.Argument(help="The id of the row to prove.")] = None,
    check: Annotated[Path | None, typer.Option(help="Check this proof instead; needs no database.")] = None,
    key: Keys = None,
    first: Annotated[
        int | None, typer.Option("--from", help="Prove that a later tree continues the tree of this size.")
    ] = None,
    second: Annotated[
        int | None, typer.Option("--to", help="The size of the later tree; the newest if not given.")
    ] = None,
    json: Json = False,
) -> None:
    """Prove one row, or that one checkpoint continues another, to anyone who has the public key."""
    if sum(option is not None for option in (id, check, first)) != 1:
        raise typer.BadParameter("give one of: a row's id, --check FILE, --from SIZE", param_hint="ID")
    if second is not None and first is None:
        raise typer.BadParameter("only goes with --from SIZE", param_hint="--to")
    if check is not None:
        _check(check, key, json=json)
        return

    async def work(settings: Settings) -> dict[str, Any]:
        async with open_atlas(settings) as atlas, atlas.pool.acquire() as conn:
            await seal_and_warn(atlas)
            if id is not None:
                return await prove(conn, id)
            assert first is not None
            return await prove_consistency(conn, first, second)

    async def over_http(atlas: "AtlasClient") -> dict[str, Any]:
        if id is None:
            raise NotOverHttp
        return await atlas.get_audit_proof(id)

    print_json(either(work, over_http))


async def _verify_database(
    settings: Settings,
    key: list[Path] | None,
    checkpoints: list[Path] | None,
    *,
    incremental: bool,
    state: bool,
    json: bool,
) -> Report:
    async with open_atlas(settings) as atlas, atlas.pool.acquire() as conn:
        try:
            return await _verify_live(atlas, conn, key, checkpoints, incremental=incremental, state=state, json=json)
        except asyncpg.InsufficientPrivilegeError as error:
            # Whoever takes a table from its owner takes the rights of the functions that read it.
            report = Report(findings=await check_guards(conn))
            if report.ok:
                raise
            report.find("guard", f"The log was not verified, because its tables cannot be read: {error}.")
            return report


async def _verify_live(
    atlas: Atlas,
    conn: Connection,
    key: list[Path] | None,
    checkpoints: list[Path] | None,
    *,
    incremental: bool,
    state: bool,
    json: bool,
) -> Report:
    settings = atlas.settings
    remembered = database_home(settings) / "audit.verified.json"
    outside = outside_copies(settings, checkpoints)
    # A key, copies of checkpoints and an earlier verification show that it was sealed once.
    was_sealed = key or outside or remembered.exists() or key_file(settings).exists()
    unsealed = None if was_sealed else await never_sealed(conn)
    refused = None if unsealed is not None else await seal_first(atlas.pool, settings)
    keys = [] if unsealed is not None else verification_keys(settings, key)
    since = _mark(remembered) if incremental else None
    with _progress("verifying", json=json) as advance:

        async def walk(reading: Connection) -> Report:
            report = unsealed or await verify(reading, keys, outside, since=since, progress=advance)
            if state:
                report.findings += await cross_check(reading, limit=ALL, rows=ALL)
            return report

        report = await read_first(settings, conn, walk)
    report.findings += [*await unnamed_key(conn), *await check_guards(conn)]
    if refused is not None:
        report.find("signer", refused.message)
    await _record(conn, report, incremental=since is not None, state=state)
    if report.ok and unsealed is None:
        LastVerified(report.last_seal, report.root).write(remembered)
    return report


async def _record(conn: Connection, report: Report, **options: bool) -> None:
    """Record the verdict. Auditors may verify with a login that only reads: then the report says so."""
    try:
        await record_verdict(conn, report, actor=caller(), options=options)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError) as error:
        warn(AtlasError(f"The verdict was not recorded in the audit log: {error}."))


async def _verify_over_http(atlas: "AtlasClient", *, has_options: bool) -> Report:
    """Verify the whole audit log where it is, and return what was found."""
    if has_options:
        raise NotOverHttp
    ended = await atlas.wait_for_verification(await atlas.start_verification())
    if ended.status in ("failed", "lost"):
        why = " ".join(ended.notices) or "The process that ran it is gone."
        raise AtlasError(f"The verification has not ended: {why}", remedy="Start it again.")
    figures = {field.name for field in fields(Report)} - {"findings", "notices"}
    return Report(
        **{name: value for name, value in ended.report.items() if name in figures},
        findings=[Finding(**finding) for finding in ended.findings],
        notices=list(ended.notices),
    )


def _mark(path: Path) -> LastVerified | None:
    try:
        mark = LastVerified.read(path)
        is_valid = mark is None or (type(mark.seal) is int and mark.seal in range(2**63) and isinstance(mark.root, str))
        if not is_valid:
            raise ValueError("it does not hold a seal")
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(
            f"{path}, which records how far the audit log was verified, cannot be read: {error}.",
            remedy="Remove it and verify without --incremental, which writes it again.",
        ) from error
    return mark


def verify_file(
    export: Path, keys: Sequence[VerifierKey], outside: Sequence[str], *, json: bool
) -> tuple[Report, Archive | None]:
    """Verify an export file, with a progress bar; with it, what an archive of it would record."""
    try:
        size = export.stat().st_size
        with _progress("verifying", json=json) as advance:
            return read_archive(export, keys, outside, progress=lambda read: advance(read, size))
    except OSError as error:
        raise SettingsError(f"The export {export} cannot be read: {error.strerror}.") from error


def _check(check: Path, key: list[Path] | None, *, json: bool) -> None:
    if not key:
        raise typer.BadParameter("is needed: the public key to check the proof with", param_hint="--key")
    try:
        document = orjson.loads(check.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise SettingsError(f"The proof {check} cannot be read: {error}.") from error
    report = check_proof(document, read_keys(key))
    lines = [finding.message for finding in report.findings] or ["The proof holds."]
    document = {"ok": report.ok, "findings": report.findings, "notices": report.notices}
    say(document, "\n".join([*lines, *report.notices]), json=json)
    if not report.ok:
        raise typer.Exit(1)


@contextmanager
def _progress(what: str, *, json: bool) -> Iterator[Advance]:
    """A progress bar on stderr if it is a terminal."""
    if json or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _document(report: Report) -> dict[str, Any]:
    return {"ok": report.ok, **asdict(report)}


def _summary(report: Report) -> "Text":
    from rich.text import Text

    summary = Text()
    for finding in report.findings:
        summary.append(f"{finding.kind:<11}", style="red")
        summary.append(f"{finding.message}{_where(finding.seal, finding.leaves)}\n")
    for notice in report.notices:
        summary.append(f"{'note':<11}", style="yellow")
        summary.append(f"{notice}\n")
    verdict = "nothing is wrong" if report.ok else counted(len(report.findings), "finding")
    summary.append(f"{report.covered}: {verdict}.", style="green" if report.ok else "red")
    return summary


def _where(seal: int | None, leaves: tuple[int, int] | None) -> str:
    parts = ([f"seal {seal}"] if seal is not None else []) + ([f"leaves {leaves[0]}–{leaves[1]}"] if leaves else [])
    return f" ({', '.join(parts)})" if parts else ""
