"""Mails that may be out are never sent again by guessing, and never reported as sent or lost without knowing."""

import asyncio
import threading

import asyncpg
import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.effects.find_effects import list_effects
from atlas.engine.effects.ledger import EffectLedger
from atlas.engine.effects.settle import settle_effect
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.retry import retry_now
from atlas.workers.email import entra_token, graph, handler, mail_effect
from atlas.workers.worker import Worker, WorkerOptions
from tests.support import DANA, some
from tests.workers.email.given import KEY, SECRET
from tests.workers.email.server import GARBAGE, Play

DENIED = {"error": {"code": "ErrorAccessDenied", "message": "Not any more."}}
GONE = {"error": {"code": "ErrorItemNotFound", "message": "The specified object was not found."}}
FAILED = {"statusCode": 500, "name": "internal_server_error", "message": "Oops."}


async def order(post, job_id) -> None:
    """An operator retries the job."""
    async with post.pool.acquire() as conn:
        await retry_now(conn, job_id, actor=DANA)


async def grown_old(post, job_id) -> None:
    """Resend has forgotten the key."""
    await post.pool.execute(
        "update atlas.effects set first_called_at = first_called_at - interval '2 days' where job_id = $1",
        job_id,
    )


async def stopped_at(post, server, endpoint) -> None:
    """A worker is stopped while it waits for a response of this endpoint."""
    worker = Worker(post.pool, post.url, WorkerOptions(job_types=["EMAIL_SEND"], poll=0.05, lease=5, grace=0.1))
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(20):
        while not server.asked(endpoint):
            await asyncio.sleep(0.01)
    worker.stop()
    await running


async def states(post, job_id) -> dict[str, str]:
    """How far the mail is at each provider."""
    rows = await post.pool.fetch("select name, state, detail from atlas.effects where job_id = $1", job_id)
    marks = {row["name"]: [mark for mark in mail_effect.MARKS if mark in row["detail"]] for row in rows}
    return {row["name"].removesuffix(".mail"): " ".join([row["state"], *marks[row["name"]]]) for row in rows}


# Resend


async def test_failures_to_the_last_retry_end_as_unknown(post, server):
    post.use("resend")
    server.play("resend", *(Play(status=500, body=FAILED, deliver=True) for _ in range(4)))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"], job.dead_lettered_at is not None) == ("failed", "unknown", True)
    assert (await post.attempts(job_id))[-1] == ("failed", "unknown")
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_a_retry_before_the_outcome_was_reported_unknown_is_no_order_to_send_it_again(post, server):
    post.use("resend")
    server.play("resend", Play(status=500, body=FAILED, deliver=True))
    job_id = await post.enqueue()
    job = await post.run(job_id)
    assert (job.status, job.error.get("outcome")) == ("queued", None)
    await grown_old(post, job_id)
    server.keys.clear()

    async with post.pool.acquire() as conn:
        await cancel(conn, job_id, actor=DANA)
    await order(post, job_id)
    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert server.deliveries == {str(job_id): 1}

    await order(post, job_id)  # now it is one
    assert (await post.finish(job_id)).status == "succeeded"


@pytest.mark.parametrize(
    "body",
    some(
        [
            ["x"],
            "words",
            5,
            {"id": None},
            {"id": {"a": 1}},
            {"id": "x" * 100_000},
            {"id": "\ud800"},
            {"statusCode": "abc"},
        ],
        every=4,
    ),
    ids=str,
)
async def test_a_response_without_an_id_leaves_the_outcome_unknown(post, server, body):
    post.use("resend")
    server.play("resend", *(Play(status=200, body=body) for _ in range(4)))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize(
    ("status", "body"),
    some(
        [
            (200, b'{"id": "abc", "n": ' + b"9" * 5000 + b"}"),
            (200, b'{"id":' + b"[" * 200_000),
            (422, b'{"name": ["x"], "message": "m"}'),
        ],
        every=3,
    ),
    ids=some(["a long number", "deep", "a list for a name"], every=3),
)
async def test_a_response_that_the_sdk_cannot_read_leaves_the_outcome_unknown(post, server, status, body):
    post.use("resend", "outbox")
    play = {"status": status, "body": body, "headers": {"Content-Type": "application/json"}}
    server.play("resend", *(Play(**play, deliver=True) for _ in range(4)))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.error["type"], job.error["outcome"]) == ("failed", "OutcomeUnknown", "unknown")
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize("status", [408, 409])
async def test_no_other_provider_is_tried_while_a_request_may_be_under_way(post, server, status):
    post.use("resend", "microsoft")
    server.play("resend", Play(status=status, body=GARBAGE, deliver=True))
    job_id = await post.enqueue()

    assert (await post.finish(job_id)).output["provider"] == "resend"
    assert server.deliveries == {str(job_id): 1}


async def test_a_mail_that_is_tried_again_keeps_the_pace(post, server):
    post.use("resend", resend_messages_per_minute=10)
    server.play("resend", Play(status=500, body=FAILED, deliver=False))
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.pool.execute("update atlas.mail_pace set next_at = clock_timestamp() + interval '10 minutes'")
    await post.make_due(job_id)

    job = await post.run(job_id)

    assert (job.status, job.retry_count) == ("queued", 1)
    assert len(server.asked("resend")) == 1
    await post.pool.execute("update atlas.mail_pace set next_at = '-infinity'")
    await post.pool.execute("delete from atlas.mail_slots")
    assert (await post.finish(job_id)).status == "succeeded"


# Microsoft


@pytest.mark.parametrize("status", some([408, 409, 412, 423, 425, 429], every=3))
async def test_a_draft_that_was_sent_although_it_was_refused_is_not_sent_again(post, server, status):
    server.play("send", Play(status=status, deliver=True))
    job_id = await post.enqueue()

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}
    assert len(server.drafts) == 1


async def test_a_request_that_is_carried_out_late_makes_no_second_mail(post, server):
    server.play("send", Play(cut=True, deliver=False), Play(status=429))
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.make_due(job_id)
    await post.run(job_id)
    [draft] = server.drafts.values()
    draft["isDraft"] = False
    server._deliver(str(job_id), draft)
    await post.make_due(job_id)

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


async def test_a_refused_draft_that_is_gone_is_for_an_operator_to_decide(post, server):
    server.play("send", Play(status=429))
    job_id = await post.enqueue()
    await post.run(job_id)
    server.drafts.clear()
    await post.make_due(job_id)

    job = await post.finish(job_id)
    assert (job.status, job.error["outcome"]) == ("failed", "unknown")

    await order(post, job_id)
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize("play", [Play(cut=True, deliver=True), Play(status=429, deliver=True)], ids=["cut", "refused"])
async def test_a_message_that_is_not_found_right_after_the_sending_is_looked_up_again(post, server, play):
    server.play("send", play)
    server.play("lookup", Play(status=404, body=GONE), Play(status=404, body=GONE))
    job_id = await post.enqueue()

    assert (await post.finish(job_id)).status == "succeeded"
    assert ("failed", "unknown") in await post.attempts(job_id)
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_an_ordered_mail_is_not_made_anew_while_its_message_may_be_on_its_way(post, server):
    server.play("send", Play(cut=True, deliver=True))
    server.play("lookup", *(Play(status=404, body=GONE) for _ in range(2)))
    job_id = await post.enqueue(max_retries=1)
    assert (await post.finish(job_id)).error["outcome"] == "unknown"

    await order(post, job_id)

    assert (await post.finish(job_id)).status == "succeeded"
    assert (server.deliveries, len(server.asked("lookup"))) == ({str(job_id): 1}, 3)


async def test_a_message_that_is_not_found_long_after_the_sending_is_for_an_operator_to_decide(post, server):
    server.play("send", Play(cut=True, deliver=True))
    job_id = await post.enqueue()
    await post.run(job_id)
    server.drafts.clear()
    await grown_old(post, job_id)
    await post.make_due(job_id)

    job = await post.run(job_id)

    assert (job.status, job.attempt_count, job.error["outcome"]) == ("failed", 2, "unknown")


async def test_no_other_provider_is_tried_while_an_open_request_may_yet_be_carried_out(post, server, monkeypatch):
    post.use("microsoft", "resend")
    server.play("send", Play(cut=True, deliver=False), Play(status=403, body=DENIED))
    job_id = await post.enqueue()
    look_up = server._lookup

    def carried_out_late(request, play):
        found = look_up(request, play)
        [draft] = server.drafts.values()
        if len(server.asked("send")) == 2 and draft["isDraft"]:
            draft["isDraft"] = False
            server._deliver(str(job_id), draft)
        return found

    monkeypatch.setattr(server, "_lookup", carried_out_late)

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert (server.deliveries, server.asked("resend")) == ({str(job_id): 1}, [])
    assert len(server.drafts) == 1  # what a person looks at to decide

    await order(post, job_id)
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize("status", [403, 429])
async def test_no_other_provider_is_tried_while_the_draft_cannot_be_removed(post, server, status):
    post.use("microsoft", "resend")
    server.play("send", Play(status=status, body=DENIED))
    server.play("delete", Play(status=403, body=DENIED), Play(status=403, body=DENIED))
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.error.get("outcome")) == ("queued", None)
    assert "could not be removed" in job.error["message"]
    await post.make_due(job_id)
    assert (await post.finish(job_id)).output["provider"] == "microsoft"
    assert (server.deliveries, server.asked("resend")) == ({str(job_id): 1}, [])


@pytest.mark.parametrize("removed", [True, False])
async def test_a_draft_whose_removal_had_no_response_was_not_sent(post, server, removed):
    server.play("send", Play(status=403, body=DENIED))
    server.play("delete", Play(hold=30.0, status=None if removed else 500))
    job_id = await post.enqueue()
    await stopped_at(post, server, "delete")
    assert await states(post, job_id) == {"microsoft": "refused discarding"}
    assert len(server.drafts) == (0 if removed else 1)

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


async def test_a_draft_that_a_person_removes_while_it_is_removed_is_for_an_operator_to_decide(post, server):
    post.use("microsoft", "resend")
    server.play("send", Play(status=429))
    server.play("delete", Play(status=404, body=GONE))
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert server.asked("resend") == []


@pytest.mark.parametrize("status", some([400, 403, 404, 408, 409, 412, 423, 425, 429], every=3))
async def test_no_other_provider_sends_what_was_sent_although_it_was_refused(post, server, status):
    post.use("microsoft", "resend")
    server.play("send", Play(status=status, body=DENIED, deliver=True))
    job_id = await post.enqueue()

    assert (await post.finish(job_id)).output["provider"] == "microsoft"
    assert server.deliveries == {str(job_id): 1}
    assert len(server.drafts) == 1  # the copy in Sent Items


@pytest.mark.parametrize("look", some([403, 503], every=2))
@pytest.mark.parametrize("status", [403, 429])
async def test_no_other_provider_is_tried_while_a_refused_draft_cannot_be_looked_up(post, server, status, look):
    post.use("microsoft", "resend")
    server.play("send", Play(status=status, body=DENIED, deliver=True))
    server.play("lookup", Play(status=look, body=DENIED))
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.error["outcome"]) == ("failed" if look == 403 else "queued", "unknown")
    assert server.asked("resend") == []
    if look == 503:
        assert (await post.finish(job_id)).output["provider"] == "microsoft"
    assert server.deliveries == {str(job_id): 1}


async def test_no_other_provider_is_tried_while_a_draft_of_an_earlier_attempt_cannot_be_looked_up(post, server):
    post.use("microsoft", "resend")
    server.play("send", Play(status=429))
    server.play("resend", Play(status=429, body={"name": "rate_limit_exceeded", "message": "Slow."}))
    server.play("delete", Play(status=503))
    job_id = await post.enqueue()
    await post.run(job_id)
    assert await states(post, job_id) == {"microsoft": "refused discarding"}
    [draft] = server.drafts.values()
    draft["isDraft"] = False
    server._deliver(str(job_id), draft)
    server.play("lookup", Play(status=403, body=DENIED))
    await post.make_due(job_id)

    job = await post.run(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert (server.deliveries, server.asked("resend")) == ({str(job_id): 1}, [])


async def test_a_mailbox_that_is_gone_was_not_a_mail_that_was_sent(post, server):
    gone = {"error": {"code": "ErrorInvalidUser", "message": "No such user."}}
    server.play("send", Play(cut=True, deliver=False), Play(status=404, deliver=False, body=gone))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.output) == ("failed", {})
    assert server.deliveries == {}


@pytest.mark.long
async def test_an_operator_can_order_a_mail_again_whose_outcome_stays_unknown(post, server):
    server.play("send", Play(cut=True, deliver=False))
    server.play("lookup", Play(status=403, body=DENIED), Play(status=403, body=DENIED))
    job_id = await post.enqueue()
    assert (await post.finish(job_id)).error["outcome"] == "unknown"

    post.use("resend", ms_client_secret=None)
    await order(post, job_id)

    assert (await post.finish(job_id)).output["provider"] == "resend"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_an_ordered_mail_that_a_second_provider_may_have_is_not_sent_by_the_first(post, server):
    server.play("send", Play(cut=True, deliver=False))
    server.play("lookup", Play(status=403, body=DENIED), Play(status=403, body=DENIED))
    job_id = await post.enqueue()
    assert (await post.finish(job_id)).error["outcome"] == "unknown"
    post.use("resend", "microsoft")
    await order(post, job_id)
    server.play("resend", Play(hold=30.0, deliver=True))
    await stopped_at(post, server, "resend")
    assert await states(post, job_id) == {"microsoft": "unknown ordered", "resend": "intended"}

    job = await post.finish(job_id)

    assert (job.status, job.output["provider"]) == ("succeeded", "resend")
    assert server.deliveries == {str(job_id): 1}


async def test_two_providers_that_may_both_have_the_mail_are_for_an_operator_to_decide(post, server):
    server.play("send", Play(cut=True, deliver=False))
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.pool.execute(
        "insert into atlas.effects (id, name, job_id, tenant_id, job_type, key, state, attempt_no, detail, first_called_at)"
        " select gen_random_uuid(), 'resend.mail', job_id, tenant_id, job_type, key, state, attempt_no, detail, first_called_at"
        " from atlas.effects"
    )
    await post.make_due(job_id)

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert (server.deliveries, server.asked("resend")) == ({}, [])


async def test_no_other_provider_is_tried_while_a_refusal_is_not_noted(post, server, monkeypatch):
    post.use("microsoft", "resend")
    server.play("send", Play(status=429))
    real = EffectLedger.end

    async def failing_once(self, id, state, **values):
        if state == "refused":
            monkeypatch.setattr(EffectLedger, "end", real)
            raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")
        return await real(self, id, state, **values)

    monkeypatch.setattr(EffectLedger, "end", failing_once)
    job_id = await post.enqueue()

    assert (await post.run(job_id)).status == "queued"
    assert await states(post, job_id) == {"microsoft": "intended"}
    await post.make_due(job_id)
    assert (await post.finish(job_id)).output["provider"] == "microsoft"
    assert server.deliveries == {str(job_id): 1}


# What a person settles


@pytest.mark.parametrize("outcome", ["done", "not_done"])
async def test_a_person_settles_whether_a_mail_was_sent_and_a_retry_does_as_they_said(post, server, outcome):
    server.play("send", Play(cut=True, deliver=False))
    server.play("lookup", Play(status=403, body=DENIED))
    job_id = await post.enqueue()
    assert (await post.finish(job_id)).error["outcome"] == "unknown"
    async with post.pool.acquire() as conn:
        [effect] = await list_effects(conn, job_id=job_id, state="unknown")
        assert effect.name == "microsoft.mail"
        reference = "AAMk1" if outcome == "done" else None
        await settle_effect(conn, effect.id, outcome, reference=reference, actor=DANA)

    await order(post, job_id)
    job = await post.finish(job_id)

    assert job.status == "succeeded"
    if outcome == "done":
        assert (job.output["messageId"], server.deliveries) == ("AAMk1", {})
    else:
        assert (server.deliveries, len(server.asked("draft"))) == ({str(job_id): 1}, 2)
    assert [row for row in await cross_check_of(post) if "effects" in row] == []


async def cross_check_of(post) -> list[str]:
    async with post.pool.acquire() as conn:
        return [str(finding) for finding in await cross_check(conn)]


# What an operator orders


@pytest.mark.long
async def test_an_ordered_mail_is_made_anew_where_its_draft_cannot_be_read(post, server):
    server.play("send", Play(cut=True, deliver=False))
    server.play("lookup", *(Play(status=403, body=DENIED) for _ in range(2)))
    job_id = await post.enqueue()
    await post.finish(job_id)

    post.use(ms_sender_upn="other@contoso.example")
    await order(post, job_id)

    assert (await post.finish(job_id)).output["sender"] == "other@contoso.example"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_an_ordered_mail_whose_draft_was_refused_and_cannot_be_read_goes_out_by_the_sender_of_now(post, server):
    server.play("send", Play(status=429))
    server.play("lookup", Play(), *(Play(status=403, body=DENIED) for _ in range(4)))
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.make_due(job_id)
    assert (await post.run(job_id)).error["outcome"] == "unknown"
    server.play("draft", Play(status=503))

    post.use(ms_sender_upn="Other <other@contoso.example>")
    await order(post, job_id)

    assert (await post.finish(job_id)).output["sender"] == "Other <other@contoso.example>"
    assert [request.path.split("/")[3] for request in server.asked("draft")[1:]] == ["other@contoso.example"] * 2
    assert await post.pool.fetchval("select detail->>'sender' from atlas.effects") == "Other <other@contoso.example>"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
@pytest.mark.parametrize("endpoint", ["draft", "send"])
async def test_an_ordered_mail_that_is_refused_is_as_unknown_as_before_and_can_be_ordered_again(post, server, endpoint):
    server.play("send", Play(cut=True, deliver=True))
    server.play("lookup", Play(status=403, body=DENIED), Play(status=403, body=DENIED))
    job_id = await post.enqueue()
    await post.finish(job_id)
    server.play(endpoint, Play(status=403, body=DENIED))

    await order(post, job_id)
    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert server.deliveries == {str(job_id): 1}

    server.play("lookup", Play(status=403, body=DENIED))
    await order(post, job_id)
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 2}


@pytest.mark.long
async def test_an_ordered_mail_that_one_provider_refuses_goes_out_by_the_next(post, server):
    server.play("send", Play(cut=True, deliver=False))
    server.play("lookup", Play(status=403, body=DENIED), Play(status=403, body=DENIED))
    job_id = await post.enqueue()
    await post.finish(job_id)
    post.use("microsoft", "resend")
    server.play("send", Play(status=403, body=DENIED))
    server.play("resend", Play(hold=30.0, deliver=True))

    await order(post, job_id)
    await stopped_at(post, server, "resend")

    assert (await post.finish(job_id)).output["provider"] == "resend"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_an_ordered_mail_stays_with_a_provider_that_can_say_a_little_later(post, server):
    post.use("resend", "microsoft")
    server.play("resend", *(Play(status=500, body=FAILED, deliver=True) for _ in range(4)))
    job_id = await post.enqueue()
    assert (await post.finish(job_id)).error["outcome"] == "unknown"
    server.play("resend", Play(status=429, body={"name": "rate_limit_exceeded", "message": "Slow."}))

    await order(post, job_id)
    job = await post.run(job_id)

    assert (job.status, job.error["outcome"]) == ("queued", "unknown")
    assert (await post.finish(job_id)).output["provider"] == "resend"
    assert (server.deliveries, server.asked("draft")) == ({str(job_id): 1}, [])


@pytest.mark.long
@pytest.mark.parametrize("status", [403, 429])
async def test_an_ordered_mail_goes_to_the_next_provider_where_this_one_will_not_say(post, server, status):
    post.use("resend", "microsoft")
    server.play("resend", *(Play(status=500, body=FAILED, deliver=False) for _ in range(4)))
    job_id = await post.enqueue()
    await post.finish(job_id)
    if status == 429:
        await grown_old(post, job_id)
    server.play("resend", Play(status=status, body={"name": "rate_limit_exceeded", "message": "Slow."}))

    await order(post, job_id)

    assert (await post.run(job_id)).output["provider"] == "microsoft"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_an_order_outlives_a_failure_of_the_provider(post, server):
    post.use("resend")
    server.play("resend", Play(cut=True, deliver=False))
    job_id = await post.enqueue()
    await post.run(job_id)
    await grown_old(post, job_id)
    assert (await post.finish(job_id)).error["outcome"] == "unknown"
    server.play("resend", Play(status=500, body=FAILED, deliver=False))

    await order(post, job_id)

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_an_order_outlives_a_look_that_fails(post, server):
    server.play("send", Play(cut=True, deliver=False))
    server.play("lookup", Play(status=403, body=DENIED), Play(status=503), Play(status=403, body=DENIED))
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.make_due(job_id)
    assert (await post.run(job_id)).error["outcome"] == "unknown"

    await order(post, job_id)
    assert (await post.run(job_id)).status == "queued"
    await post.make_due(job_id)

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_an_order_goes_by_the_providers_that_are_set_up_now(post, server):
    post.use("resend")
    server.play("resend", Play(cut=True, deliver=False))
    job_id = await post.enqueue()
    await post.run(job_id)
    await grown_old(post, job_id)
    await post.finish(job_id)

    post.use("microsoft")
    await order(post, job_id)

    assert (await post.finish(job_id)).output["provider"] == "microsoft"
    assert len(server.asked("resend")) == 1
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.long
async def test_the_draft_of_an_ordered_mail_is_removed_before_another_provider_sends_it(post, server):
    server.play("send", Play(cut=True, deliver=False))
    server.play("lookup", Play(status=403, body=DENIED))
    job_id = await post.enqueue()
    await post.finish(job_id)

    post.use("resend")
    await order(post, job_id)

    assert (await post.finish(job_id)).output["provider"] == "resend"
    assert (server.deliveries, server.drafts) == ({str(job_id): 1}, {})


# Workers that die


async def test_a_mail_that_lost_its_third_worker_while_a_provider_had_it_ends_as_unknown(post, server):
    post.use("resend")
    server.play("resend", Play(status=500, body=FAILED, deliver=True))
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.pool.execute(
        "update atlas.jobs set status = 'running', claimed_by = 'dead', attempt_count = 2, lost_count = 2, next_retry_at = null"
        " where id = $1",
        job_id,
    )
    await post.pool.fetch("select * from atlas.reap_leases(1000)")

    job = await post.job(job_id)

    assert (job.status, job.error["type"], job.error["outcome"]) == ("failed", "Poison", "unknown")
    assert ("lost", "unknown") in await post.attempts(job_id)
    meta = await post.pool.fetchval("select meta from atlas.audit_log where action = 'JOB_POISONED'")
    assert '"outcome": "unknown"' in meta


@pytest.mark.parametrize(("provider", "endpoint"), [("microsoft", "send"), ("resend", "resend")])
async def test_a_worker_that_stops_while_a_provider_has_the_mail_records_an_unknown_outcome(
    post, server, provider, endpoint
):
    post.use(provider)
    server.play(endpoint, Play(hold=30.0, deliver=True))
    job_id = await post.enqueue()
    await stopped_at(post, server, endpoint)

    assert await post.attempts(job_id) == [("canceled", "unknown")]
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize("provider", ["microsoft", "resend"])
async def test_what_a_worker_that_was_taken_for_dead_has_sent_meanwhile_is_sent(post, server, monkeypatch, provider):
    post.use(provider)
    server.play({"microsoft": "send"}.get(provider, provider), Play(status=429, body=FAILED))
    job_id = await post.enqueue(max_retries=1)
    await post.run(job_id)
    keep_pace = handler.keep_pace

    async def while_another_sends_it(*values):
        await keep_pace(*values)
        await post.pool.execute("update atlas.effects set state = 'done', reference = 'm' where job_id = $1", job_id)

    monkeypatch.setattr(handler, "keep_pace", while_another_sends_it)
    await post.make_due(job_id)
    job = await post.finish(job_id)

    assert (job.status, job.output["messageId"]) == ("succeeded", "m")
    assert server.deliveries == {}


@pytest.mark.parametrize("retries", [0, 1], ids=["in the last look", "before the next try"])
async def test_a_time_limit_that_strikes_while_the_provider_is_asked_leaves_an_unknown_outcome(post, server, retries):
    server.play("send", Play(cut=True, deliver=True))
    server.play("lookup", Play(hold=30.0))
    job_id = await post.enqueue(max_retries=retries, timeout_seconds=1)

    job = await post.finish(job_id)

    assert (job.status, job.error["type"], job.error["outcome"]) == ("failed", "JobTimeout", "unknown")
    assert (await post.attempts(job_id))[-1] == ("timeout", "unknown")
    assert server.deliveries == {str(job_id): 1}


async def test_a_time_limit_that_strikes_while_the_sending_is_noted_leaves_an_unknown_outcome(
    post, server, monkeypatch
):
    real = EffectLedger.end

    async def slow(self, id, state, **values):
        if state == "done":
            await asyncio.sleep(30)
        return await real(self, id, state, **values)

    monkeypatch.setattr(EffectLedger, "end", slow)
    job_id = await post.enqueue(max_retries=0, timeout_seconds=1)

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert server.deliveries == {str(job_id): 1}


async def test_a_mail_canceled_while_the_provider_is_asked_about_it_says_that_its_outcome_is_unknown(post, server):
    server.play("send", Play(cut=True, deliver=True))
    server.play("lookup", Play(hold=30.0))
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.make_due(job_id)
    running = asyncio.create_task(post.drain())
    while not server.asked("lookup"):
        await asyncio.sleep(0.01)

    async with post.pool.acquire() as conn:
        await cancel(conn, job_id, actor=DANA)
    await running

    assert (await post.job(job_id)).status == "canceled"
    assert (await post.attempts(job_id))[-1] == ("canceled", "unknown")
    meta = await post.pool.fetchval("select meta from atlas.audit_log where action = 'JOB_CANCELED'")
    assert '"outcome": "unknown"' in meta


async def test_a_mail_that_ends_for_want_of_the_database_while_a_provider_may_have_it_ends_as_unknown(
    post, server, monkeypatch
):
    post.use("resend")
    server.play("resend", Play(cut=True, deliver=True))
    job_id = await post.enqueue(max_retries=1)
    await post.run(job_id)

    async def failing(*_):
        raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")

    monkeypatch.setattr(handler, "keep_pace", failing)
    await post.make_due(job_id)
    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")


async def test_a_mail_that_may_be_out_ends_as_unknown_where_its_tenants_settings_are_wrong_by_now(post, server):
    post.use("resend")
    server.play("resend", Play(cut=True, deliver=True))
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.pool.execute("""update atlas.tenants set limits = '{"email": {"nonsense": 1}}' where slug = 'system'""")
    post.use()  # a new mailer has read nothing yet
    await post.make_due(job_id)

    job = await post.finish(job_id)

    assert (job.status, job.attempt_count, job.error["outcome"]) == ("failed", 2, "unknown")
    assert "limits.email" in job.error["message"]

    # The order to send it again is no less an order while the settings are still wrong.
    await order(post, job_id)
    await post.finish(job_id)
    await grown_old(post, job_id)
    await post.pool.execute("update atlas.tenants set limits = '{}' where slug = 'system'")
    post.use()
    await order(post, job_id)
    assert (await post.finish(job_id)).status == "succeeded"


async def test_a_mail_whose_ledger_cannot_be_read_in_its_last_attempt_ends_as_unknown(post, server, monkeypatch):
    post.use("resend")
    server.play("resend", Play(cut=True, deliver=True))
    job_id = await post.enqueue(max_retries=1)
    await post.run(job_id)

    async def failing(*_):
        raise asyncpg.LockNotAvailableError("canceling statement due to lock timeout")

    monkeypatch.setattr(handler, "take_mails", failing)
    await post.make_due(job_id)
    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")


async def test_a_mail_that_may_be_out_ends_as_unknown_whatever_fault_ends_it(post, server, monkeypatch):
    server.play("send", Play(cut=True, deliver=True))
    job_id = await post.enqueue(max_retries=1)
    await post.run(job_id)

    async def failing(*_):
        raise KeyError("what was not expected")

    monkeypatch.setattr(graph.Graph, "look_up", failing)
    await post.make_due(job_id)
    job = await post.finish(job_id)

    assert (job.status, job.error["type"], job.error["outcome"]) == ("failed", "KeyError", "unknown")


# Keys and tokens


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\u2019"])
async def test_a_key_that_cannot_be_sent_is_redacted(post, server, key):
    post.use("resend", resend_api_key=key)
    job_id = await post.enqueue(max_retries=0)

    job = await post.run(job_id)

    assert job.status == "failed"
    assert "outcome" not in job.error  # nothing left this machine
    received = await post.pool.fetch(
        "select error::text as received from atlas.jobs union all select error_text from atlas.job_attempts"
        " union all select message || meta::text from atlas.audit_log"
    )
    assert not any(KEY in (row["received"] or "") for row in received)


@pytest.mark.parametrize("token", some(["a\r\nX: y", "ü", "", None, 7], every=3))
async def test_a_token_that_cannot_be_sent_is_no_token(post, server, token):
    server.play("token", Play(status=200, body={"access_token": token, "expires_in": 3600}))
    job = await post.run(await post.enqueue())

    assert "gave no token" in job.error["message"]
    assert SECRET not in str(job.error)


@pytest.mark.long
@pytest.mark.parametrize("part", ["slow_body", "slow_head"])
async def test_a_response_that_never_ends_does_not_block_the_next_token(post, server, monkeypatch, part):
    monkeypatch.setattr(entra_token, "FETCH_SECONDS", 0.5)
    server.play("token", *(Play(**{part: True}) for _ in range(3)))
    jobs = [await post.enqueue() for _ in range(5)]
    await post.drain()
    assert len(server.asked("token")) == 1  # all waited for one

    for _ in range(2):
        for job_id in jobs:
            await post.make_due(job_id)
        await post.drain()
    for job_id in jobs:
        await post.make_due(job_id)
    await post.drain()

    assert server.deliveries == {str(job_id): 1 for job_id in jobs}
    async with asyncio.timeout(5):
        while sum(thread.name.startswith("entra") for thread in threading.enumerate()) > 1:
            await asyncio.sleep(0.05)


async def test_a_mailer_that_closes_while_a_token_is_fetched_leaves_no_thread_behind(post, server):
    server.play("token", Play(slow_head=True))
    await post.enqueue(max_retries=0)
    running = asyncio.create_task(post.drain())
    while not server.asked("token"):
        await asyncio.sleep(0.01)

    await post.close()

    async with asyncio.timeout(5):
        while any(thread.name.startswith("entra") for thread in threading.enumerate()):
            await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
