"""`atlas audit archive`."""

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from atlas.audit.exports.archives import Archive, Verified, read_receipt, record_archive
from atlas.audit.verifier.format import counted
from atlas.cli.audit.keys import outside_copies, verification_keys
from atlas.cli.audit.verify import Keys, verify_file
from atlas.cli.runtime import caller, execute, open_atlas
from atlas.cli.terminal.output import Json, say
from atlas.db.pool import connect
from atlas.errors import Refused, SettingsError
from atlas.settings import Settings


def archive_log(
    file: Annotated[
        Path | None, typer.Argument(help="An export of the whole log or a range, which is verified.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="The output of `atlas audit verify --export FILE --json`, made elsewhere.")
    ] = None,
    key: Keys = None,
    checkpoints: Annotated[
        list[Path] | None, typer.Option(help="Copies of checkpoints that are kept elsewhere: a file or a folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Verify an export and record it as an archive: `atlas audit prune` removes only rows that are in one."""
    if (file is None) == (receipt is None):
        raise typer.BadParameter("give one of: an export, --receipt FILE", param_hint="FILE")
    if receipt is not None and (key or checkpoints):
        raise typer.BadParameter(
            "applies to an export; a receipt is of an export that was verified", param_hint="--key"
        )

    async def work(settings: Settings) -> Archive:
        async with open_atlas(settings) as atlas:
            archive = _archive_of(file, settings, key, checkpoints, json=json) if file else _received(receipt)
            verified: Verified = "here" if file else "elsewhere"
            conn = await connect(atlas.owner_url, application="atlas audit archive")
            try:
                await record_archive(conn, archive, verified=verified, actor=caller())
            finally:
                await conn.close()
        return archive

    archive = execute(work)
    seals = f"seals {archive.first_seal} to {archive.last_seal}"
    message = f"The archive of the {seals} was recorded. Keep the file; its SHA-256 is {archive.sha256}."
    say({"archive": archive}, message, json=json)


def _archive_of(
    file: Path, settings: Settings, key: list[Path] | None, checkpoints: list[Path] | None, *, json: bool
) -> Archive:
    report, archive = verify_file(
        file, verification_keys(settings, key), outside_copies(settings, checkpoints), json=json
    )
    if report.findings:
        raise Refused(
            f"The export has {counted(len(report.findings), 'finding')}, the first: {report.findings[0].message}",
            remedy="See all with `atlas audit verify --export FILE --key FILE`. Nothing was recorded.",
        )
    if archive is None:
        raise Refused("An archive holds the rows of all tenants.", remedy="Export without --tenant.")
    return archive


def _received(receipt: Path | None) -> Archive:
    assert receipt is not None
    try:
        document: Any = orjson.loads(receipt.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise SettingsError(f"The receipt {receipt} cannot be read: {error}.") from error
    return read_receipt(document)
