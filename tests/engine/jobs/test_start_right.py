"""The right to start what was claimed: it lapses, is granted again by claims and by reading the gate, and is revoked."""

import asyncio

import pytest

from atlas.engine.jobs.start_right import START_SECONDS, NotStarted, StartRight, boot_seconds


async def test_a_claim_gives_the_right_from_when_it_was_sent():
    right, now = StartRight(), boot_seconds()
    with pytest.raises(NotStarted):
        right.check()
    right.grant(now - START_SECONDS)
    with pytest.raises(NotStarted):
        right.check()
    right.grant(now)
    right.check()
    right.grant(now - 1)
    assert right.until == now + START_SECONDS


async def test_what_was_claimed_before_the_gate_was_found_closed_gives_no_right():
    right, sent_at = StartRight(), boot_seconds()
    right.revoke()
    right.grant(sent_at)
    with pytest.raises(NotStarted):
        right.check()
    right.grant(boot_seconds())
    right.check()


async def test_a_start_without_the_right_asks_for_it_and_goes_back_where_the_gate_is_closed():
    right = StartRight()
    first, second = asyncio.create_task(right.wait()), asyncio.create_task(right.wait())
    await right.requested.wait()
    # Read so long ago that the right has lapsed already: it is asked for again.
    right.grant(boot_seconds() - START_SECONDS)
    await asyncio.sleep(0)
    right.grant(boot_seconds())
    await asyncio.gather(first, second)
    right.revoke()
    third = asyncio.create_task(right.wait())
    await asyncio.sleep(0)
    right.revoke()
    with pytest.raises(NotStarted):
        await third


async def test_a_worker_confirms_only_when_what_it_was_starting_has_begun():
    right = StartRight()
    right.begin()
    settling = asyncio.create_task(right.settle())
    await asyncio.sleep(0.05)
    assert not settling.done()
    right.begun()
    await settling
