"""The result of one check of `atlas doctor`."""

from dataclasses import dataclass
from typing import Literal

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
