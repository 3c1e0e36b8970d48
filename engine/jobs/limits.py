"""Limits by key and rates, as a job type, a definition or a tenant says them, checked before they are stored.

The database fills in the key, holds the jobs and releases them: engine/jobs/functions/limits/release_limit.sql.
"""

import re

from atlas.errors import FieldError

RATE = re.compile(r"[1-9][0-9]{0,8}/(second|minute|hour|day)")
# The same pattern as in the SQL function limit_key.
KEY_FIELD = re.compile(r"\{\{\s*input\.[A-Za-z0-9_.-]+\s*\}\}")
MAX_KEY_LENGTH = 500
MAX_BURST = 1_000_000


def check_key(concurrency: int | None, key: str | None, rate: object, burst: object) -> list[FieldError]:
    """What is wrong with the limits of a job type."""
    errors = check_rate(rate, burst)
    if key is None:
        return errors
    if concurrency is None and rate is None:
        errors.append(FieldError("concurrency_key", "requires concurrency or rate"))
    if not 1 <= len(key) <= MAX_KEY_LENGTH:
        errors.append(FieldError("concurrency_key", f"has between 1 and {MAX_KEY_LENGTH} characters"))
    rest = KEY_FIELD.sub("", key)
    if "{{" in rest or "}}" in rest:
        reason = f"{key!r} is not a text with fields like {{{{ input.customer }}}}"
        errors.append(FieldError("concurrency_key", reason))
    return errors


def check_rate(rate: object, burst: object, *, path: str = "") -> list[FieldError]:
    """What is wrong with a rate and its burst."""
    errors = []
    if rate is not None and not (isinstance(rate, str) and RATE.fullmatch(rate)):
        errors.append(
            FieldError(f"{path}rate", "is not like 100/minute: a whole number per second, minute, hour or day")
        )
    if burst is None:
        return errors
    if rate is None:
        errors.append(FieldError(f"{path}burst", "requires a rate"))
    if not isinstance(burst, int) or isinstance(burst, bool) or not 1 <= burst <= MAX_BURST:
        errors.append(FieldError(f"{path}burst", f"must be a whole number from 1 to {MAX_BURST:,}"))
    return errors
