"""The misfire policy: which due times of a schedule fire, and which are dropped.

Ordinarily there is one due time, milliseconds old. After an outage there are many, and the trigger's policy decides:
`skip` drops the missed ones, `latest` fires the last one alone, `all` fires each.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Literal

from atlas.engine.triggers.cron import Cron

# A due time is missed when it is older than this, or when it passed while Atlas was offline. It is long enough for
# another scheduler to take over, and shorter than the minute between two due times.
GRACE = timedelta(seconds=30)
INSTANT = timedelta(microseconds=1)
# How far new rules of a zone move a due time.
RULE_SHIFT = timedelta(minutes=65)


@dataclass(frozen=True, slots=True)
class Plan:
    """The due times to fire now, the next one after them, and the (first, last) of those that are dropped.

    `error` says why the schedule cannot be computed; it is then tried again later.
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
    """Plan a schedule whose first open due time is `due`; with None it starts at `since` or now.

    A `due` that is none of its times was computed by old rules of its zone, and moves to the time by the new rules. If
    that is not near, the schedule has moved to another zone, and what was open there fires first.
    """
    if due is None:
        due = cron.after(since or now)
    elif cron.after(due - INSTANT) != due:
        near = cron.after(due - RULE_SHIFT)
        due = near if near <= due + RULE_SHIFT else due
    if due > now:
        return Plan(next_fire_at=due)
    if policy == "all":
        fire = list(islice(chain((due,), cron.times(due, now)), most))
        return Plan(fire, cron.after(fire[-1]))
    last = cron.latest(due, now) or due
    missed = last < now - GRACE or (online_since is not None and last <= online_since)
    if policy == "skip" and missed:
        return Plan([], cron.after(last), (due, last))
    before = cron.latest(due, last - INSTANT) or due if last > due else None
    return Plan([last], cron.after(last), None if before is None else (due, before))
