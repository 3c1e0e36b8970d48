"""The result of one check of `atlas doctor`."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal

import asyncpg

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check, and how to correct what is wrong."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""


def finding(check: str, text: str, *, fail: bool = False, warn: bool = False, remedy: str = "") -> Diagnosis:
    """A diagnosis, which is ok unless it fails or warns. Only then it keeps the remedy."""
    if not fail and not warn:
        return Diagnosis(check, "ok", text)
    return Diagnosis(check, "fail" if fail else "warn", text, remedy)


async def readable(check: str, diagnosis: Awaitable[Diagnosis]) -> Diagnosis:
    """The diagnosis, or a warning that this login may not read what the check is about."""
    try:
        return await diagnosis
    except asyncpg.InsufficientPrivilegeError as error:
        return Diagnosis(check, "warn", f"it could not be read: {error}", "See the check of the roles.")
