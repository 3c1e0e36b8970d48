"""`atlas audit erase`, `atlas audit prune` and `atlas audit new-epoch`."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from atlas.audit.keys import (
    SigningKey,
    checkpoint_folder,
    install_next,
    key_file,
    next_key,
    public_key_files,
    read_signing_key,
    signing_key,
)
from atlas.audit.personal_data import erase
from atlas.audit.retention import PrunedRows, new_epoch
from atlas.audit.sealing.checkpoint import InconsistentTree, require_continuation
from atlas.audit.sealing.sealer import sign_epoch
from atlas.audit.sealing.tree_head import named_as_log
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.format import Finding, counted
from atlas.cli.access.tenant_names import tenant_id
from atlas.cli.audit.export import Tenant
from atlas.cli.audit.keys import outside_copies, seal_and_warn, verification_keys
from atlas.cli.runtime import Atlas, caller, connected, execute, open_atlas
from atlas.cli.terminal.durations import parse_duration
from atlas.cli.terminal.output import Json, say, warn
from atlas.db.pool import Connection, connect
from atlas.engine.effects.erase import erase_details
from atlas.engine.retention.audit_prune import PruneReview, prune_by_policy
from atlas.errors import Conflict, NotFound, Refused
from atlas.settings import Settings

# What verification finds in a restored cluster before its new epoch, although the audit log is whole.
EXPECTED_AFTER_RESTORE = {"cluster", "stale", "unsealed"}


def erase_subject(
    subject: Annotated[str, typer.Option(help="The person's value, for example an address; case does not matter.")],
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Erase a person's values from the audit log, the subjects of mails to them, and the details of effects with them.

    Verification still passes.
    """

    async def work(settings: Settings) -> tuple[int, int]:
        async with connected(settings) as conn, conn.transaction():
            of_tenant = await tenant_id(conn, tenant)
            values = await erase(conn, subject, actor=caller(), tenant_id=of_tenant)
            return values, await erase_details(conn, subject, actor=caller(), tenant_id=of_tenant)

    values, details = execute(work)
    if not values and not details:
        remedy = "Give the value as it was recorded; for a mail, the address without a name."
        warn(NotFound("personal value", "equal to that subject", remedy=remedy))
    said = f"{values} personal values were erased" + (
        f", and the details of {counted(details, 'effect')}." if details else "."
    )
    say({"erased": values, "effect_details": details}, said, json=json)


def prune_log(
    older_than: Annotated[
        timedelta, typer.Option(parser=parse_duration, metavar="DURATION", help="Rows sealed longer ago than this.")
    ],
    reason: Annotated[str, typer.Option(help="Why, for the person who approves it.")] = "",
    json: Json = False,
) -> None:
    """Remove the rows of old seals for good; their leaves stay, so verification and old proofs still work.

    Where policy has the workflow `audit.prune` reviewed, a second person approves it first. Run it again afterwards.
    """

    async def work(settings: Settings) -> PrunedRows | PruneReview | None:
        _require_key(settings)
        async with open_atlas(settings) as atlas:
            await seal_and_warn(atlas)
            conn = await connect(atlas.owner_url, application="atlas audit prune")
            try:
                min_age = timedelta(days=settings.atlas_audit_min_age_days)
                signer = signing_key(settings)
                pruned = await prune_by_policy(
                    conn, older_than=older_than, min_age=min_age, actor=caller(), key=signer, reason=reason
                )
            finally:
                await conn.close()
            if isinstance(pruned, PrunedRows):
                # Until the record of the pruning is sealed, the removed rows count as missing.
                await seal_and_warn(atlas)
            return pruned

    pruned = execute(work)
    if isinstance(pruned, PruneReview):
        say({"pruned": None, "review": pruned}, _review_message(pruned), json=json)
        return
    message = (
        "No seal is that old."
        if pruned is None
        else f"{pruned.rows} rows were removed, up to seal {pruned.through_seal}."
    )
    say({"pruned": pruned}, message, json=json)


def _review_message(review: PruneReview) -> str:
    return (
        f"Nothing was removed: a second person must approve it by {review.expires_at:%Y-%m-%d %H:%M} UTC."
        f" Another than {review.requested_by} runs `atlas workflow approve {review.approval_id}`; then run this again."
    )


def begin_epoch(
    reason: Annotated[str, typer.Option(help="Why, for everyone who reads the audit log.")],
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Continue although signed rows are missing from the audit log."),
    ] = False,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Create a new signing key, which the old key signs unless it is lost.")
    ] = False,
    old_key: Annotated[
        Path | None, typer.Option(help="The old private key, if you replaced the file of the key yourself.")
    ] = None,
    json: Json = False,
) -> None:
    """Continue sealing in a cluster that was restored, copied or upgraded, after verifying what it holds."""

    epoch = execute(
        lambda settings: start_epoch(settings, reason=reason, accept_loss=accept_loss, new_key=new_key, old_key=old_key)
    )
    say({"epoch": epoch}, f"Epoch {epoch} has begun; sealing continues.", json=json)


async def start_epoch(
    settings: Settings, *, reason: str, accept_loss: bool = False, new_key: bool = False, old_key: Path | None = None
) -> int:
    """Begin an epoch after verifying what the audit log holds, sign its first seal, and return its number."""
    _require_key(settings, new_key=new_key, old_key=old_key)
    async with open_atlas(settings) as atlas:
        await _require_no_findings(atlas, accept_loss=accept_loss)
        async with atlas.pool.acquire() as conn:
            # Checked before the epoch begins: it begins once, with the loss accepted or from a better backup.
            lost = {} if new_key else await _lost_end(conn, settings, accept_loss=accept_loss)
            key, facts = await _key_of_epoch(conn, settings, new_key=new_key, old_key=old_key)
        conn = await connect(atlas.owner_url, application="atlas audit new-epoch")
        try:
            epoch = await new_epoch(conn, reason=reason, actor=caller(), facts={**facts, **lost})
        finally:
            await conn.close()
        if new_key:
            # Only now: without a new epoch, a new key has nothing to sign.
            install_next(settings, key)
        async with atlas.pool.acquire() as conn:
            await sign_epoch(conn, key, checkpoint_folder(settings), epoch=epoch, abandon=accept_loss)
        return epoch


async def _lost_end(conn: Connection, settings: Settings, *, accept_loss: bool) -> dict[str, Any]:
    """What the epoch's event says of the end that was lost, if one was. Refused without the word of a person."""
    try:
        await require_continuation(conn, signing_key(settings), checkpoint_folder(settings))
    except InconsistentTree as error:
        if not accept_loss:
            raise
        return {"lost": error.lost.facts}
    return {}


async def _key_of_epoch(
    conn: Connection, settings: Settings, *, new_key: bool, old_key: Path | None
) -> tuple[SigningKey, dict[str, str]]:
    """The key that will sign the epoch, and what the epoch's event says of it."""
    if new_key:
        key = await named_as_log(conn, next_key(settings))
        before = key_file(settings) if key_file(settings).exists() else None
    else:
        key, before = await named_as_log(conn, signing_key(settings)), old_key
    facts = {"key": key.public}
    if before is not None:
        old = await named_as_log(conn, read_signing_key(settings, before))
        facts["handover"] = old.hand_over(key)
    return key, facts


def _require_key(settings: Settings, *, new_key: bool = False, old_key: Path | None = None) -> None:
    path = key_file(settings)
    if new_key and (settings.atlas_audit_key_file is not None or old_key is not None):
        raise Refused(
            "--new-key makes the key in ATLAS_HOME and lets the one there sign it; this one you replace yourself.",
            remedy=f"Put the new key at {path} and name the file of the one before with --old-key.",
        )
    if not new_key and not path.exists():
        raise Refused(
            "The key that signs the audit log is not on this machine.",
            remedy="Run the command where the key is. If the key is lost, replace it with --new-key.",
        )


async def _require_no_findings(atlas: Atlas, *, accept_loss: bool) -> None:
    findings = await _findings(atlas)
    if findings and not accept_loss:
        raise Conflict(
            f"The audit log has {counted(len(findings), 'finding')}, the first: {findings[0].message}",
            remedy="`atlas audit verify` shows them; --accept-loss continues and signs that rows were lost.",
        )


async def _findings(atlas: Atlas) -> list[Finding]:
    keys = verification_keys(atlas.settings, None) if public_key_files(atlas.settings) else []
    async with atlas.pool.acquire() as conn:
        report = await verify(conn, keys, outside_copies(atlas.settings, None))
    return [finding for finding in report.findings if finding.kind not in EXPECTED_AFTER_RESTORE]
