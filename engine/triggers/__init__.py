"""Triggers: schedules and events that start jobs and workflows, and the record that makes each firing single."""

from atlas.engine.triggers.cron import Cron, check_cron, known_cron, read_cron
from atlas.engine.triggers.find import Fire, Trigger, find_trigger, list_fires, list_triggers
from atlas.engine.triggers.fire_events import fire_due_events
from atlas.engine.triggers.fire_now import fire_now
from atlas.engine.triggers.fire_schedules import Polled, Unfired, fire_due
from atlas.engine.triggers.preview import Occurrence, preview
from atlas.engine.triggers.spec import TriggerSpec, read_trigger
from atlas.engine.triggers.store import add_trigger, edit_trigger, list_schedules, read_clock, remove_trigger

__all__ = [
    "Cron",
    "Fire",
    "Occurrence",
    "Polled",
    "Trigger",
    "TriggerSpec",
    "Unfired",
    "add_trigger",
    "check_cron",
    "edit_trigger",
    "find_trigger",
    "fire_due",
    "fire_due_events",
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
