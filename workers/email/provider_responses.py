"""Reading what a provider answers: how long to wait, whether it refused for good, and its own words."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TypeGuard

import httpx

from atlas.engine.secrets.redact import Redactor
from atlas.settings import Settings
from atlas.workers.email.addresses import shorten
from atlas.workers.email.providers import MaybeSent, NotSent

LONGEST_WORDS = 500
LONGEST_HEARD = 16 * 1024
LONGEST_ID = 2000
LONGEST_WAIT = 7 * 24 * 3600.0

# Refusals that pass: too early, too many, a conflict with something that happens at the same time.
PASSING = (408, 409, 412, 423, 425, 429)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the answer asks to wait, given as a number or as a date; None where it asks for nothing.

    A date is compared with the answer's own, so that no clock of this machine is trusted.
    """
    found = {name.lower(): value for name, value in headers.items()}
    asked = found.get("retry-after", "").strip()
    if not asked:
        return None
    if asked.isascii() and asked.replace(".", "", 1).isdigit():
        return min(float(asked), LONGEST_WAIT)
    until, now = _date(asked), _date(found.get("date", "")) or datetime.now(UTC)
    if until is None:
        return None
    return min(max(0.0, (until - now).total_seconds()), LONGEST_WAIT)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """What must not be repeated, whoever says it."""
    return tuple(secret for secret in (settings.ms_client_secret, settings.resend_api_key) if secret)


def words(text: str, secrets: tuple[str, ...] = ()) -> str:
    """A provider's words in one line: without secrets, and with addresses shortened, since errors are logged.

    Who repeats a request repeats its secrets in the spelling of the request, such as that of a form.
    """
    text = _redactor(secrets).cut(text[:LONGEST_HEARD], at_end=len(text) > LONGEST_HEARD)
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in text[: 4 * LONGEST_WORDS]).split())
    return shorten(line)[:LONGEST_WORDS]


def refusal(who: str, status: int, said: str, headers: Mapping[str, str]) -> NotSent:
    """A 4xx answer: the provider did not take the mail, for now or for good."""
    return NotSent(
        f"{who} refused the mail with {status}: {said or 'no reason given'}.",
        permanent=status not in PASSING,
        retry_after=retry_after(headers),
    )


def trouble(who: str, status: int, said: str, headers: Mapping[str, str]) -> MaybeSent:
    """A 5xx answer, or one that makes no sense: the mail may have gone out before the failure."""
    return MaybeSent(
        f"{who} failed with {status}: {said or 'no reason given'}.", answered=True, retry_after=retry_after(headers)
    )


def describe(error: BaseException, secrets: tuple[str, ...]) -> str:
    """A failure of the line, in words that name no address and no key."""
    if isinstance(error, (httpx.LocalProtocolError, UnicodeEncodeError)):
        # Their words repeat the header that could not be written, in a spelling of their own.
        return "a header of the request cannot be written"
    return words(str(error), secrets) or type(error).__name__


def is_an_id(value: object, *, longest: int = LONGEST_ID) -> TypeGuard[str]:
    """True for what can be a provider's name of something, and can be kept."""
    return isinstance(value, str) and value.isprintable() and 0 < len(value) <= longest


# One for each set of secrets: a token is replaced every hour.
@lru_cache(maxsize=8)
def _redactor(secrets: tuple[str, ...]) -> Redactor:
    return Redactor(dict.fromkeys(secrets, "of the mail provider"))


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
