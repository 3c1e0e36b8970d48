"""Wait for an event, or the first of several, with a timeout."""

import asyncio


async def wait_for(event: asyncio.Event, *, within: float) -> bool:
    """Wait until the event is set, for at most this many seconds. Returns whether it is set."""
    try:
        async with asyncio.timeout(max(0.0, within)):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()


async def wait_for_any(*events: asyncio.Event, within: float) -> None:
    """Wait until one of the events is set, for at most this many seconds."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=max(0.0, within), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
