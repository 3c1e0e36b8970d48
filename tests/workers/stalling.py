"""Handlers that keep the interpreter's lock, for the tests of the watchdog."""

import re
from typing import Any

from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job


@job("stall.regex")
async def match_for_ever(input: dict[str, Any]) -> None:
    """A regular expression that would take years, and lets no thread run meanwhile."""
    re.match(r"(a+)+$", "a" * 60 + "b")


@job("stall.thread")
def match_in_a_thread(input: dict[str, Any]) -> None:
    """The same in a thread: the event loop waits for the interpreter's lock."""
    re.match(r"(a+)+$", "a" * 60 + "b")


@job("stall.bystander")
async def bystander(input: dict[str, Any], ctx: JobContext) -> None:
    """Does nothing, beside it."""
