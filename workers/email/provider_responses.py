"""Reads a provider's response: whether the refusal is permanent, and its message."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeGuard

import httpx

from atlas.engine.secrets.redact import Redactor
from atlas.outgoing.http import retry_after
from atlas.settings import Settings
from atlas.workers.email.addresses import shorten
from atlas.workers.email.providers import MaybeSent, NotSent

MAX_MESSAGE_LENGTH = 500
MAX_READ_LENGTH = 16 * 1024
MAX_ID_LENGTH = 2000

# Refusals that pass: too early, too many requests, a conflict with a concurrent request.
PASSING = (408, 409, 412, 423, 425, 429)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """The settings that no message may repeat."""
    configured = (settings.ms_client_secret, settings.resend_api_key, settings.smtp_password)
    return tuple(secret for secret in configured if secret)


def shown_message(text: str, secrets: tuple[str, ...] = ()) -> str:
    """A provider's message in one line: without secrets, and with addresses shortened, since errors are logged.

    A response that repeats its request holds the secrets in the encoding of the request, such as that of a form.
    """
    text = _redactor(secrets).cut(text[:MAX_READ_LENGTH], at_end=len(text) > MAX_READ_LENGTH)
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in text[: 4 * MAX_MESSAGE_LENGTH]).split())
    return shorten(line)[:MAX_MESSAGE_LENGTH]


def refusal(who: str, status: int, said: str, headers: Mapping[str, str]) -> NotSent:
    """A 4xx response: the provider did not take the mail, for now or permanently."""
    return NotSent(
        f"{who} refused the mail with {status}: {said or 'no reason given'}.",
        permanent=status not in PASSING,
        retry_after=retry_after(headers),
    )


def server_failure(who: str, status: int, said: str, headers: Mapping[str, str]) -> MaybeSent:
    """A 5xx response, or a malformed one: the mail may have been sent before the failure."""
    return MaybeSent(
        f"{who} failed with {status}: {said or 'no reason given'}.", responded=True, retry_after=retry_after(headers)
    )


def describe(error: BaseException, secrets: tuple[str, ...]) -> str:
    """A failure of the connection as a message without addresses and keys."""
    if isinstance(error, (httpx.LocalProtocolError, UnicodeEncodeError)):
        # Their messages repeat the header that could not be written, in an encoding of their own.
        return "a header of the request cannot be written"
    return shown_message(str(error), secrets) or type(error).__name__


def is_an_id(value: object, *, longest: int = MAX_ID_LENGTH) -> TypeGuard[str]:
    """True for a value that can be a provider's id, and can be stored."""
    return isinstance(value, str) and value.isprintable() and 0 < len(value) <= longest


# One for each set of secrets: a token is replaced about every hour.
@lru_cache(maxsize=8)
def _redactor(secrets: tuple[str, ...]) -> Redactor:
    return Redactor(dict.fromkeys(secrets, "of the mail provider"))
