"""Mails that a program of the release before has begun, in its own ledger."""

import pytest

from tests.workers.email.server import Play
from tests.workers.email.test_unknown_outcomes import DENIED, states

# What an attempt of this release left, as the release before would have left it.
AS_BEFORE = """
with gone as (delete from atlas.effects returning *)
insert into atlas.mail_ledger (job_id, provider, tenant_id, sender, state, attempt_no, draft_id, message_id, first_requested_at, created_at, updated_at)
select job_id, split_part(name, '.', 1), tenant_id, detail->>'sender', $1, attempt_no, detail->>'draft', reference, first_called_at, created_at,
  coalesce(ended_at, intended_at)
from gone"""


async def begun(post, server, provider, play, state, **options):
    """A mail whose first attempt was one of the release before, and its job."""
    post.use(provider)
    server.play("send" if provider == "microsoft" else provider, play)
    job_id = await post.enqueue(**options)
    await post.run(job_id)
    assert await post.pool.execute(AS_BEFORE, state) == "INSERT 0 1"
    await post.make_due(job_id)
    return job_id


@pytest.mark.parametrize("provider", ["microsoft", "resend"])
@pytest.mark.parametrize("state", ["sending", "unknown"])
async def test_a_mail_that_may_be_out_is_asked_about_and_sent_once(post, server, provider, state):
    job_id = await begun(post, server, provider, Play(cut=True, deliver=True), state)

    job = await post.finish(job_id)

    assert (job.status, server.deliveries) == ("succeeded", {str(job_id): 1})
    assert await states(post, job_id) == {provider: "done"}
    if provider == "microsoft":
        assert len(server.asked("send")) == 1


async def test_a_mail_that_was_sent_is_not_sent_again(post, server):
    job_id = await begun(post, server, "resend", Play(cut=True, deliver=True), "unknown")
    await post.pool.execute("update atlas.mail_ledger set state = 'sent', message_id = 'm'")

    assert (await post.finish(job_id)).output["messageId"] == "m"
    assert len(server.asked("resend")) == 1


@pytest.mark.parametrize("state", ["drafted", "discarding"])
async def test_a_refused_draft_is_sent(post, server, state):
    job_id = await begun(post, server, "microsoft", Play(status=429), state)

    assert (await post.finish(job_id)).status == "succeeded"
    assert (server.deliveries, len(server.asked("draft"))) == ({str(job_id): 1}, 1)


async def test_a_mail_that_was_ordered_again_is_sent(post, server):
    job_id = await begun(post, server, "microsoft", Play(cut=True, deliver=False), "ordered")
    server.play("lookup", Play(status=403, body=DENIED))

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


async def test_a_send_slot_is_kept(post, server):
    post.use("resend", resend_messages_per_minute=1)
    for _ in range(2):
        await post.enqueue()
    await post.drain()
    [waiting] = await post.pool.fetch("delete from atlas.mail_slots returning *")
    await post.pool.execute(
        "insert into atlas.mail_ledger (job_id, provider, tenant_id, sender, attempt_no, slot_at, slot_pace)"
        " values ($1, 'resend', $2, '', 1, $3, 'resend')",
        *(waiting["job_id"], waiting["tenant_id"], waiting["slot_at"]),
    )
    await post.make_due(waiting["job_id"])

    await post.drain()

    assert [tuple(row) for row in await post.pool.fetch("select slot_at, pace from atlas.mail_slots")] == [
        (waiting["slot_at"], "resend")
    ]
