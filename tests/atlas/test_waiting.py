"""Waiting for an event with a timeout."""

import asyncio

import pytest

from atlas.waiting import wait_for


async def test_an_event_that_is_set_ends_the_wait():
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, event.set)
    async with asyncio.timeout(5):
        assert await wait_for(event, within=60)


@pytest.mark.parametrize("within", [0.01, 0.0, -1.0])
async def test_the_wait_ends_when_the_time_is_over(within):
    async with asyncio.timeout(5):
        assert not await wait_for(asyncio.Event(), within=within)


async def test_an_event_that_was_set_before_needs_no_time():
    event = asyncio.Event()
    event.set()
    assert await wait_for(event, within=0.0)


async def test_a_cancellation_is_passed_on():
    waiting = asyncio.create_task(wait_for(asyncio.Event(), within=60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
