"""A module as users write it: what it registers when the scheduler program starts."""

from datetime import UTC, datetime, timedelta

from atlas.scheduler.recurring import Recurring, at_start


async def tidy() -> None:
    """Runs in the scheduler's process."""


@at_start
async def register(recurring: Recurring) -> None:
    await recurring.register("system", "tidy", datetime(2027, 1, 1, tzinfo=UTC), timedelta(), tidy)
    await recurring.register("system", "tidy often", datetime(2020, 1, 1, tzinfo=UTC), timedelta(hours=1), tidy)
