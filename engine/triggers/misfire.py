"""Which due times fire when a schedule is looked at, and which were missed.

Ordinarily there is one, a moment old. After a while in which nothing could fire there are many, and the trigger's
policy says what becomes of them: `skip` lets the missed go, `latest` fires the last one alone, `all` fires each.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Literal

from engine.triggers.cron import Cron

# A due time is missed when it is older than this, or when it passed while Atlas was offline. It is long enough for
# another scheduler to take over, and shorter than the minute between two due times.
GRACE = timedelta(seconds=30)
MOMENT = timedelta(microseconds=1)
# How far a due time may be from where it belongs: a look that was put off for an hour, a zone that moved by one.
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
    now: datetime,
    online_since: datetime | None,
    most: int,
) -> Plan:
    """What to do about a schedule whose first open due time is `due`; None begins it anew from now.

    A moment that is none of its times is a look that was put off, or a time by the old rules of its zone: its own times
    of the hour before are open then, since nobody fired them.
    """
    if due is None:
        return Plan(next_fire_at=cron.after(now))
    if cron.after(due - MOMENT) != due:
        due = cron.after(due - ASTRAY)
    if due > now:
        return Plan(next_fire_at=due)
    if policy == "all":
        fire = list(islice(chain((due,), cron.times(due, now)), most))
        return Plan(fire, cron.after(fire[-1]))
    last = cron.latest(due, now) or due
    missed = last < now - GRACE or (online_since is not None and last <= online_since)
    if policy == "skip" and missed:
        return Plan([], cron.after(last), (due, last))
    before = cron.latest(due - MOMENT, last - MOMENT) if last > due else None
    return Plan([last], cron.after(last), None if before is None else (due, before))
