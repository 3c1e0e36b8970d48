"""The misfire policy: which due times of a schedule fire, and which are missed.

A due time that passed while a scheduler led and Atlas was online fires, however late. One that passed during an
outage is missed, and the trigger's policy decides: `skip` fires none of them, `latest` the last one of each outage, and
`all` fires each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from atlas.engine.triggers.cron import INSTANT, Cron

# A due time is not missed when a scheduler leads again within this time.
GRACE = timedelta(seconds=30)
# How far new rules of a zone move a due time.
RULE_SHIFT = timedelta(minutes=65)
# Due times missed in the last days of an outage have a row each; one row stands for all before them.
MISSED_EACH = timedelta(days=7)
ALWAYS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))

Policy = Literal["skip", "latest", "all"]
# After the first time, up to and with the second.
Outage = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Plan:
    """The due times to fire now, those that were missed, each as (first, last), and the first due time that is left."""

    fire: list[datetime]
    missed: list[tuple[datetime, datetime]]
    next_fire_at: datetime


def first_open(cron: Cron, due: datetime | None, start: datetime) -> datetime:
    """The first open due time of a schedule: `due`, or the first one after `start`.

    A `due` that is none of its times was computed by old rules of its zone, and moves to the time by the new rules. If
    that is not near, the schedule has moved to another zone, and what was open there fires first.
    """
    if due is None:
        return cron.after(start)
    if cron.get_next_fire_time(None, due) == due:
        return due
    near = cron.after(due - RULE_SHIFT)
    return near if near <= due + RULE_SHIFT else due


def plan(
    cron: Cron, policy: Policy, *, due: datetime, now: datetime, outages: Sequence[Outage], most: int, max_missed: int
) -> Plan:
    """Plan a schedule whose first open due time is `due`, for at most `most` times; the next plan has the others."""
    fire: list[datetime] = []
    missed: list[tuple[datetime, datetime]] = []
    while due <= now and len(fire) < most and len(missed) < max_missed:
        end = None if policy == "all" else next((end for began, end in outages if began < due <= end), None)
        following = cron.get_next_fire_time(due, now)
        if end is None or (policy == "latest" and following > min(end, now)):
            fire.append(due)
        else:
            last = _last_of_row(cron, due, min(end, now))
            missed.append((due, last))
            following = following if last == due else cron.after(last)
        due = following
    return Plan(fire, missed, due)


def _last_of_row(cron: Cron, due: datetime, end: datetime) -> datetime:
    """The last missed due time that shares the row of `due`; never the last one of the outage, which may fire."""
    if due >= end - MISSED_EACH:
        return due
    last = cron.latest(due, end - MISSED_EACH) or due
    return last if cron.after(last) <= end else cron.latest(due, last - INSTANT) or due
