"""Which due times fire when a schedule is looked at, and which were missed.

Ordinarily there is one, a moment old. After a while in which nothing could fire there are many, and the trigger's
policy says what becomes of them: `skip` lets the missed go, `latest` fires the last one alone, `all` fires each.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Literal

from atlas.engine.triggers.cron import Cron

# A due time is missed when it is older than this, or when it passed while Atlas was offline. It is long enough for
# another scheduler to take over, and shorter than the minute between two due times.
GRACE = timedelta(seconds=30)
MOMENT = timedelta(microseconds=1)
# How far the rules of a zone move a due time.
ASTRAY = timedelta(minutes=65)


@dataclass(frozen=True, slots=True)
class Plan:
    """The due times to fire now, the first one to look at next, and the (first, last) of those let go.

    `error` says why the schedule cannot be computed; it is then only looked at again.
    """

    fire: list[datetime] = field(default_factory=list)
    next_fire_at: datetime | None = None
    dropped: tuple[datetime, datetime] | None = None
    error: str | None = None


def plan(
    cron: Cron,
    policy: Literal["skip", "latest", "all"],
    *,
    due: datetime | None,
    since: datetime | None = None,
    now: datetime,
    online_since: datetime | None,
    most: int,
) -> Plan:
    """What to do about a schedule whose first open due time is `due`; None begins it anew, from `since` or from now.

    A moment that is none of its times is one by the old rules of its zone, and comes at its new place; where that is
    not near, the schedule has moved to another zone, and what was open there comes first.
    """
    if due is None:
        due = cron.after(since or now)
    elif cron.after(due - MOMENT) != due:
        near = cron.after(due - ASTRAY)
        due = near if near <= due + ASTRAY else due
    if due > now:
        return Plan(next_fire_at=due)
    if policy == "all":
        fire = list(islice(chain((due,), cron.times(due, now)), most))
        return Plan(fire, cron.after(fire[-1]))
    last = cron.latest(due, now) or due
    missed = last < now - GRACE or (online_since is not None and last <= online_since)
    if policy == "skip" and missed:
        return Plan([], cron.after(last), (due, last))
    before = cron.latest(due, last - MOMENT) or due if last > due else None
    return Plan([last], cron.after(last), None if before is None else (due, before))
