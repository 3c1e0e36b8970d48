"""A module as users write it: what it registers when the scheduler program starts."""

import asyncio
from datetime import UTC, datetime, timedelta

from atlas import Recurring, RecurringContext, at_start


async def tidy() -> None:
    """Runs in the scheduler's process."""


async def sleep(ctx: RecurringContext) -> None:
    """Does not end by itself."""
    await asyncio.sleep(3600)


@at_start
async def register(recurring: Recurring) -> None:
    await recurring.register("system", "tidy", datetime(2027, 1, 1, tzinfo=UTC), timedelta(), tidy)
    await recurring.register("system", "tidy often", datetime(2020, 1, 1, tzinfo=UTC), timedelta(hours=1), tidy)
    await recurring.register("system", "sleep", datetime(2020, 1, 1, tzinfo=UTC), timedelta(hours=1), sleep)
