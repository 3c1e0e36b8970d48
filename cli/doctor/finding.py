"""What one check found."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A thing that was looked at, how it is, and what to do where that is not well."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""


def finding(check: str, found: str, *, fail: bool = False, warn: bool = False, remedy: str = "") -> Diagnosis:
    """A finding that is well unless it fails or warns; a remedy is kept only where it is needed."""
    if not fail and not warn:
        return Diagnosis(check, "ok", found)
    return Diagnosis(check, "fail" if fail else "warn", found, remedy)
