"""Each adapter against a server that speaks the documented wire: called once by key, looked up, listed."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from atlas.engine.effects.adapters import EffectUnknown, KeyReused, ProviderUnavailable
from atlas.engine.effects.outcomes import CannotTell, Done, EffectRefused, NotDone
from atlas.integrations.effects.graph import GraphMail
from atlas.integrations.effects.http import HttpEffects, HttpShape
from atlas.integrations.effects.resend import ResendMail
from atlas.integrations.effects.s3 import S3Objects
from atlas.integrations.effects.stripe import StripeCharges
from tests.integrations.effects.mail_servers import GraphServer, ResendServer
from tests.integrations.effects.order_server import OrderServer
from tests.integrations.effects.provider_server import WireReply
from tests.integrations.effects.s3_server import BUCKET, LOGIN, S3Server
from tests.integrations.effects.stripe_server import API_KEY, StripeServer

A_DAY_AGO = datetime.now(UTC) - timedelta(days=1)
ORDERS = HttpShape(lookup="/orders?key={key}", list="/orders?since={since}")
MAIL = {"from": "a@example.com", "to": ["b@example.com"], "subject": "Hello", "text": "Hi"}


async def token():
    return "token-1"


def stripe_on(server):
    adapter = StripeCharges(API_KEY, url=server.url)
    return adapter, lambda key, other="": adapter.call(key, amount=500, currency="eur", source="tok_visa" + other)


def s3_on(server):
    adapter = S3Objects(LOGIN, BUCKET, url=server.url, prefix="bills/")
    return adapter, lambda key, other="": adapter.call(key, b"%PDF " + other.encode())


def resend_on(server):
    adapter = ResendMail("re_1", url=server.url)
    return adapter, lambda key, other="": adapter.call(key, {**MAIL, "text": "Hi" + other})


def graph_on(server):
    adapter = GraphMail("shop@example.com", token, url=server.url)
    return adapter, lambda key, other="": adapter.call(key, {"subject": "Hello" + other})


def orders_on(server):
    adapter = HttpEffects(server.url, shape=ORDERS)
    return adapter, lambda key, other="": adapter.call(key, "/orders", {"amount": 500, "note": other})


ADAPTERS = {
    "stripe": (StripeServer, stripe_on, lambda server: len(server.charges)),
    "s3": (S3Server, s3_on, lambda server: len(server.objects)),
    "resend": (ResendServer, resend_on, lambda server: len(server.mails)),
    "graph": (
        GraphServer,
        graph_on,
        lambda server: sum(not message["isDraft"] for message in server.messages.values()),
    ),
    "http": (OrderServer, orders_on, lambda server: len(server.orders)),
}


@pytest.fixture(params=ADAPTERS)
async def provider(request):
    """The name, the server, the adapter, its call, and how many effects the server has made."""
    make_server, adapter_on, made = ADAPTERS[request.param]
    server = make_server()
    async with server.running():
        adapter, call = adapter_on(server)
        yield request.param, server, adapter, call, lambda: made(server)
        await adapter.close()


async def test_a_key_is_made_once_and_found_by_its_reference(provider):
    name, _, adapter, call, made = provider
    key = str(uuid4())
    before = await adapter.lookup(key)

    reference = await call(key)

    assert await call(key) == reference
    assert made() == 1
    if name == "resend":
        assert isinstance(await adapter.lookup(key), CannotTell)
    else:
        # A mailbox without the message says nothing: a sent one may have been removed.
        assert isinstance(before, CannotTell) if name == "graph" else before == NotDone()
        assert await adapter.lookup(key) == Done(reference)
    assert [(entry.reference, entry.key) for entry in [entry async for entry in adapter.list(A_DAY_AGO)]] == [
        (reference, None if name == "resend" else key)
    ]


async def test_a_lost_response_leaves_the_outcome_unknown_and_a_repetition_makes_nothing_twice(provider):
    _, server, _, call, made = provider
    key = str(uuid4())
    for fault in ("lost", "cut", "failed", "failed_after"):
        server.faults.append(fault)
        with pytest.raises(EffectUnknown):
            await call(key)
        server.faults.clear()
        if fault == "lost":
            # The key now holds a result; the other faults are of a new effect.
            assert made() == 1
            key = str(uuid4())

    await call(key)

    assert made() == 2


async def test_a_refusal_says_that_nothing_was_made(provider):
    _, server, _, call, made = provider
    server.faults.append(WireReply(429, {"message": "slow down"}))

    with pytest.raises(EffectRefused, match="429"):
        await call(str(uuid4()))

    assert made() == 0


async def test_a_conflict_says_that_the_first_request_may_be_under_way(provider):
    _, server, _, call, _ = provider
    server.faults.append(WireReply(409, {"message": "in progress"}))

    with pytest.raises(EffectUnknown, match="409"):
        await call(str(uuid4()))


async def test_a_key_with_another_request_is_not_taken_for_this_effect(provider):
    name, _, _, call, made = provider
    if name == "graph":
        pytest.skip("a draft has no key of the request")
    key = str(uuid4())
    await call(key)

    with pytest.raises(KeyReused):
        await call(key, "_other")

    assert made() == 1


async def test_a_provider_that_cannot_be_reached_has_made_nothing(provider):
    gone = type(provider[1])()
    gone.url = "http://127.0.0.1:1"
    adapter, call = ADAPTERS[provider[0]][1](gone)

    # Graph is asked for the key before anything is made.
    with pytest.raises((EffectRefused, ProviderUnavailable)):
        await call(str(uuid4()))
    assert isinstance(await adapter.lookup("k"), CannotTell)


async def test_every_page_of_a_list_is_read_and_what_is_older_is_left_out():
    for make_server, adapter_on, _ in ADAPTERS.values():
        server = make_server()
        async with server.running():
            adapter, call = adapter_on(server)
            references = {await call(str(number)) for number in range(5)}
            assert {entry.reference async for entry in adapter.list(A_DAY_AGO)} == references
            assert [entry async for entry in adapter.list(datetime.now(UTC) + timedelta(hours=1))] == []
            await adapter.close()


async def test_more_charges_than_a_page_are_listed_and_failed_ones_are_not():
    server = StripeServer()
    async with server.running():
        adapter, _ = stripe_on(server)
        for number in range(250):
            server.charge(str(number))
        server.charge("declined", status="failed")
        server.charge(None)

        entries = [entry async for entry in adapter.list(A_DAY_AGO)]

        assert len({entry.reference for entry in entries}) == len(entries) == 251
        assert sum(asked.path == "/v1/charges" for asked in server.asked) == 3
        await adapter.close()


async def test_a_charge_that_the_search_does_not_know_yet_is_found_in_the_list():
    server = StripeServer()
    async with server.running():
        adapter, call = stripe_on(server)
        server.searchable = 0
        reference = await call("late's")

        assert await adapter.lookup("late's") == Done(reference)
        await adapter.close()


async def test_a_declined_card_is_a_refusal():
    server = StripeServer()
    async with server.running():
        adapter, _ = stripe_on(server)

        with pytest.raises(EffectRefused, match="declined"):
            await adapter.call("k", amount=500, currency="eur", source="tok_chargeDeclined")

        assert await adapter.lookup("k") == NotDone()
        await adapter.close()


async def test_mails_of_people_are_no_effects():
    server = GraphServer()
    async with server.running():
        adapter, call = graph_on(server)
        server.sent_by_hand()
        reference = await call("k")

        assert [entry.reference async for entry in adapter.list(A_DAY_AGO)] == [reference]
        await adapter.close()


async def test_a_draft_that_an_attempt_left_is_sent_instead_of_another():
    server = GraphServer()
    async with server.running():
        adapter, call = graph_on(server)
        server.faults.append("cut")
        with pytest.raises(EffectUnknown):
            await call("k")
        assert await adapter.lookup("k") == NotDone()

        await call("k")

        assert len(server.messages) == 1
        await adapter.close()


async def test_a_link_to_another_server_gets_no_credentials():
    server = GraphServer()
    async with server.running():
        adapter, call = graph_on(server)
        for number in range(3):
            await call(str(number))
        real, server.url = server.url, "http://127.0.0.1:1"

        with pytest.raises(ProviderUnavailable, match="another server"):
            _ = [entry async for entry in adapter.list(A_DAY_AGO)]
        server.url = real
        await adapter.close()


async def test_a_guarded_adapter_does_not_connect_to_addresses_within_the_network():
    server = OrderServer()
    async with server.running():
        adapter = HttpEffects(server.url, guarded=True)

        with pytest.raises(EffectRefused, match="not public"):
            await adapter.call("k", "/orders", {})

        assert server.asked == []
        await adapter.close()
