"""Mails are compared with what the provider lists, as other effects are."""

from datetime import UTC, datetime, timedelta

from atlas.engine.effects.reconcile import ReconcileOptions, reconcile
from atlas.integrations.effects.graph import GraphMail
from atlas.integrations.effects.resend import ResendMail
from tests.integrations.effects.mail_servers import GraphServer, ResendServer
from tests.support import DANA
from tests.workers.email.given import KEY


async def compared(post, adapter, provider: str) -> dict[str, int]:
    """How the ledger and the provider differ."""
    options = ReconcileOptions(provider, datetime.now(UTC) - timedelta(days=1), grace=timedelta(0))
    report = await reconcile(post.pool, adapter, options, actor=DANA)
    assert report.effects == 2
    return report.counts


async def test_a_mail_that_resend_does_not_list_is_found(post):
    async with ResendServer().running() as server:
        post.use("resend", resend_api_url=server.url)
        for _ in range(2):
            job = await post.run(await post.enqueue())
            assert job.status == "succeeded", job.error
        adapter = ResendMail(KEY, url=server.url)

        assert await compared(post, adapter, "resend") == {}
        server.mails.pop()
        assert await compared(post, adapter, "resend") == {"not_there": 1}
        await adapter.close()


async def test_a_mail_that_is_not_in_sent_items_is_found(post, server):
    for _ in range(2):
        await post.run(await post.enqueue())
    async with GraphServer().running() as mailbox:
        for message in server.drafts.values():
            sent_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            mailbox.messages[message["id"]] = {**message, "sentDateTime": sent_at}

        async def token() -> str:
            return "token-1"

        adapter = GraphMail("agent@contoso.example", token, url=mailbox.url)
        assert await compared(post, adapter, "microsoft") == {}
        mailbox.messages.popitem()
        assert await compared(post, adapter, "microsoft") == {"not_there": 1}
        await adapter.close()
