"""Wait for an event with a timeout."""

import asyncio


async def wait_for(event: asyncio.Event, *, within: float) -> bool:
    """Wait until the event is set, for at most this many seconds. Returns whether it is set."""
    try:
        async with asyncio.timeout(max(0.0, within)):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()
