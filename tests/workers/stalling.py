"""Handlers that keep the interpreter's lock, for the tests of the watchdog."""

import re
from typing import Any

from atlas.engine.jobs.context import JobContext
from atlas.engine.jobs.typed_job import job


@job("stall.regex")
async def match_for_ever(input: dict[str, Any]) -> None:
    """A regular expression that would take years, and lets no thread run meanwhile."""
    re.match(r"(a+)+$", "a" * 60 + "b")


@job("stall.bystander")
async def bystander(input: dict[str, Any], ctx: JobContext) -> None:
    """Does nothing, beside it."""
