"""Looks at something again and again until it has finished, as commands do with --wait."""

import asyncio
from collections.abc import AsyncIterator
from itertools import chain, repeat

# Seconds between the looks.
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)


async def looks() -> AsyncIterator[None]:
    """Yields for each look: often at first, then once a second."""
    for pause in chain(PAUSES, repeat(PAUSES[-1])):
        yield
        await asyncio.sleep(pause)
