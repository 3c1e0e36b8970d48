"""What starts work by itself: schedules and events, and the record that makes each firing single."""

from engine.triggers.by_hand import fire_now
from engine.triggers.cron import Cron, check_cron, known_cron, read_cron
from engine.triggers.events import fire_events
from engine.triggers.fire import Fire, list_fires
from engine.triggers.preview import Occurrence, preview
from engine.triggers.schedule import Round, Unfired, fire_due
from engine.triggers.spec import TriggerSpec, read_trigger
from engine.triggers.triggers import (
    Trigger,
    add_trigger,
    edit_trigger,
    find_trigger,
    list_schedules,
    list_triggers,
    read_clock,
    remove_trigger,
)

__all__ = [
    "Cron",
    "Fire",
    "Occurrence",
    "Round",
    "Trigger",
    "TriggerSpec",
    "Unfired",
    "add_trigger",
    "check_cron",
    "edit_trigger",
    "find_trigger",
    "fire_due",
    "fire_events",
    "fire_now",
    "known_cron",
    "list_fires",
    "list_schedules",
    "list_triggers",
    "preview",
    "read_clock",
    "read_cron",
    "read_trigger",
    "remove_trigger",
]
