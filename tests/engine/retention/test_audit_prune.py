"""Old rows of the audit log go by rule: not before a least age, and with a second person where policy wants one."""

from dataclasses import replace
from datetime import timedelta

import asyncpg
import orjson
import pytest

from atlas.actors import Actor
from atlas.audit.exports.archives import read_archive, record_archive
from atlas.audit.exports.export import Extract, export
from atlas.audit.keys import signing_key
from atlas.audit.retention import PrunedRows
from atlas.audit.sealing.checkpoint import publish
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.crosscheck import cross_check
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.engine.policy.rules import add_rule, remove_rule
from atlas.engine.retention.audit_prune import WORKFLOW, PruneReview, prune_by_policy
from atlas.engine.workflows.approvals import decide_approval
from atlas.errors import Conflict, Refused
from atlas.settings import load_settings
from tests.audit.given import write
from tests.support import DANA

YEAR = timedelta(days=365)
OLD = timedelta(days=400)
ERIN = Actor("user", "erin")


@pytest.fixture
def key(tmp_path):
    return signing_key(load_settings(atlas_home=tmp_path))


@pytest.fixture
def ask(key):
    async def ask(conn, *, older_than=OLD, actor=DANA):
        options = {"older_than": older_than, "min_age": YEAR, "actor": actor, "key": key}
        return await prune_by_policy(conn, **options, reason="tidy")

    return ask


@pytest.fixture
async def archive(owner, key, tmp_path):
    """An audit log of two seals, and an export of it that was verified."""
    for _ in range(2):
        await write(owner, 5)
        await seal(owner)
        await publish(owner, key, tmp_path / "checkpoints")
    with (tmp_path / "export").open("wb") as out:
        async for lines in export(owner, Extract(), actor=DANA):
            out.write(lines)
    report, archive = read_archive(tmp_path / "export", [VerifierKey.parse(key.public)])
    assert report.findings == []
    return archive


@pytest.fixture
async def unarchived(owner, archive):
    """The audit log when it is old, before the archive is recorded."""
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    await owner.execute("update atlas.audit_seal set sealed_at = sealed_at - interval '2 years'")
    await owner.execute("alter table atlas.audit_seal enable always trigger audit_seal_append_only")
    return owner


@pytest.fixture
async def log(unarchived, archive):
    """The old audit log, with its archive."""
    await record_archive(unarchived, archive, verified="here", actor=DANA)
    return unarchived


async def test_rows_that_are_in_no_verified_archive_stay(unarchived, archive, ask):
    log = unarchived
    with pytest.raises(Conflict, match="The rows of the seals 1 to 2 are in no archive") as refused:
        await ask(log)
    assert "atlas audit archive FILE" in refused.value.remedy

    first, second = (replace(archive, first_seal=n, last_seal=n) for n in (1, 2))
    with pytest.raises(Conflict, match="at seal 1 the log has another tree"):
        await record_archive(log, first, verified="here", actor=DANA)
    await record_archive(log, second, verified="here", actor=DANA)
    with pytest.raises(Conflict, match="The rows of the seals 1 to 2 are in no archive"):
        await ask(log)
    size, root = await log.fetchrow("select size, root from atlas.audit_seal where n = 1")
    await record_archive(log, replace(first, size=size, root=root.hex()), verified="elsewhere", actor=DANA)

    assert isinstance(await ask(log), PrunedRows)
    meta = orjson.loads(await log.fetchval("select meta from atlas.audit_log where action = 'AUDIT_PRUNED'"))
    assert [(one["first_seal"], one["last_seal"], one["verified"]) for one in meta["archives"]] == [
        (1, 1, "elsewhere"),
        (2, 2, "here"),
    ]


async def test_a_review_is_requested_only_for_rows_that_are_archived(unarchived, ask):
    await add_rule(unarchived, label="two", effect="review", workflow=WORKFLOW, actor=DANA)
    with pytest.raises(Conflict, match="are in no archive"):
        await ask(unarchived)
    assert await unarchived.fetchval("select count(*) from atlas.approvals") == 0


async def test_the_programs_role_records_no_archive(conn, archive):
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await record_archive(conn, archive, verified="here", actor=DANA)


async def test_rows_younger_than_the_least_age_stay(log, ask):
    with pytest.raises(Refused, match="stay for 365 days at least"):
        await ask(log, older_than=timedelta(days=364))

    assert isinstance(await ask(log, older_than=YEAR), PrunedRows)


async def test_policy_wants_a_second_person_or_forbids_it(log, ask):
    await add_rule(log, label="two", effect="review", workflow=WORKFLOW, actor=DANA)
    rows = await log.fetchval("select count(*) from atlas.audit_log")

    review = await ask(log)
    assert isinstance(review, PruneReview)
    assert await ask(log, actor=ERIN) == review
    with pytest.raises(Refused, match="dana requested this and may not decide it"):
        await decide_approval(log, review.approval_id, True, actor=DANA)
    assert await log.fetchval("select count(*) from atlas.audit_log") > rows

    await decide_approval(log, review.approval_id, True, actor=ERIN)
    with pytest.raises(Conflict, match="is for newer rows"):
        await log.execute("update atlas.approvals set detail = detail || '{\"through_seal\": 9}'")
        await ask(log)
    await log.execute(
        "update atlas.approvals set detail = detail || jsonb_build_object('through_seal', $1::int)", review.through_seal
    )
    pruned = await ask(log)
    assert isinstance(pruned, PrunedRows)
    assert pruned.through_seal == review.through_seal
    meta = orjson.loads(await log.fetchval("select meta from atlas.audit_log where action = 'AUDIT_PRUNED'"))
    assert (meta["approval"], meta["requested_by"], meta["approved_by"]) == (str(review.approval_id), "dana", "erin")
    assert await cross_check(log) == []
    # The approval was for those rows alone.
    assert await ask(log) is None

    await add_rule(log, label="never", effect="block", workflow=WORKFLOW, actor=DANA)
    with pytest.raises(Refused, match="Policy forbids it"):
        await ask(log)


async def test_a_request_that_was_rejected_or_expired_is_made_anew(log, ask):
    await add_rule(log, label="two", effect="review", workflow=WORKFLOW, actor=DANA)
    first = await ask(log)
    await decide_approval(log, first.approval_id, False, actor=ERIN)
    second = await ask(log)
    await decide_approval(log, second.approval_id, True, actor=ERIN)
    await log.execute("update atlas.approvals set expires_at = now() where id = $1", second.approval_id)

    third = await ask(log)

    assert isinstance(third, PruneReview)
    assert len({first.approval_id, second.approval_id, third.approval_id}) == 3
    await remove_rule(log, "two", actor=DANA)
    assert isinstance(await ask(log), PrunedRows)
