"""Retry policies: how long a failed job waits before its next attempt."""

import math
import random
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from atlas.errors import FieldError, InvalidInput

# A hundred years, in seconds. A longer delay is a mistake or means never, and its date may not exist.
MAX_BACKOFF = 3_153_600_000.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """delay(n) = base · factor^n, at most `cap`, plus up to `jitter` of it. All in seconds.

    `n` is the number of failed outcomes before this one. A policy's `max_retries` is the default of the job types and
    definitions that name it. With `caps_jitter` no delay exceeds the cap, jitter included.
    """

    name: str = "atlas"
    base: float = 10.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = 0.1
    max_retries: int = 3
    caps_jitter: bool = False

    def delay(self, retry_count: int) -> float:
        """Seconds to wait after the failure that follows `retry_count` earlier ones."""
        delay = jittered(self.exact_delay(retry_count), self.jitter)
        return min(delay, self.cap) if self.caps_jitter else delay

    def exact_delay(self, retry_count: int) -> float:
        """The delay before jitter. The exponent is bounded so that no count overflows."""
        return min(self.cap, self.base * self.factor ** min(max(retry_count, 0), 64))

    def as_json(self) -> dict[str, Any]:
        """The policy as `job_types.retry_policy` stores it."""
        return {
            "name": self.name,
            "base": self.base,
            "factor": self.factor,
            "cap": self.cap,
            "jitter": self.jitter,
        }


ATLAS = RetryPolicy()
# Its delay is taken after the increment: the first failure makes one attempt, and one attempt waits 1 s.
CAPPED = RetryPolicy("capped", base=1.0, factor=2.0, cap=60.0, jitter=0.1, max_retries=5, caps_jitter=True)
AGENT = RetryPolicy("agent", base=2.0, factor=2.0, cap=3600.0, jitter=0.1, max_retries=2)
POLICIES = {policy.name: policy for policy in (ATLAS, CAPPED, AGENT)}


def jittered(delay: float, jitter: float) -> float:
    """The delay with up to `jitter` of it added, never less: a delay that a provider asked for is never shortened."""
    return min(delay * (1 + jitter * random.random()), MAX_BACKOFF)


def seconds_within(delay: timedelta | float) -> float:
    """The delay in seconds, at most MAX_BACKOFF."""
    try:
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if math.isnan(seconds):
        raise InvalidInput("The time", [FieldError("", f"{delay!r:.100} is not a number of seconds or a timedelta")])
    return min(seconds, MAX_BACKOFF)


def backoff_delay_ms(attempts: int) -> int:
    """The capped policy's delay: attempts 0 and 1 → 1 s, 2 → 2 s, 3 → 4 s …, at most 60 s."""
    return int(min(60_000, 1000 * 2 ** min(max(attempts - 1, 0), 16)))


def can_retry(status: str, attempts: int, max_attempts: int = 5) -> bool:
    """Whether a job has attempts left: one that runs has to end first, and one that succeeded needs none."""
    return status not in ("running", "succeeded", "success") and attempts < max_attempts


def policy_of(described: RetryPolicy | str | dict[str, Any] | None) -> RetryPolicy:
    """A policy from its name, or from the numbers of a custom one."""
    if described is None:
        return ATLAS
    if isinstance(described, RetryPolicy):
        return described
    if isinstance(described, str):
        if described not in POLICIES:
            raise InvalidInput(
                "The retry policy", [FieldError("retry", f"{described!r} is not one of {', '.join(POLICIES)}")]
            )
        return POLICIES[described]
    if not isinstance(described, dict):
        raise InvalidInput(
            "The retry policy",
            [FieldError("retry", f"{described!r:.100} is neither a retry policy nor the name of one")],
        )
    return _custom(described)


def _custom(numbers: dict[str, Any]) -> RetryPolicy:
    start = POLICIES.get(str(numbers.get("name", "atlas")), replace(ATLAS, name=str(numbers.get("name", "custom"))))
    wrong = [
        FieldError(f"retry.{name}", "is not a number of zero or more")
        for name in ("base", "factor", "cap", "jitter")
        if name in numbers and not (isinstance(numbers[name], int | float) and numbers[name] >= 0)
    ]
    wrong += [
        FieldError(f"retry.{name}", "is not part of a retry policy")
        for name in numbers
        if name not in ("name", "base", "factor", "cap", "jitter")
    ]
    if wrong:
        raise InvalidInput("The retry policy", wrong)
    return replace(
        start,
        base=float(numbers.get("base", start.base)),
        factor=float(numbers.get("factor", start.factor)),
        cap=float(numbers.get("cap", start.cap)),
        jitter=float(numbers.get("jitter", start.jitter)),
    )
