"""Mails by Resend: an Idempotency-Key on the call. Resend cannot be asked for a key, and its list does not show one.

So a call whose outcome is unknown is repeated with the same key within a day, and decided by a person after that.
Reconciliation compares the ids of the mails.
"""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import orjson

from atlas.engine.effects.adapters import EffectUnknown, ProviderEntry, ProviderUnavailable
from atlas.engine.effects.outcomes import Answer, CannotTell
from atlas.integrations.effects.wire import Wire, moment

DEFAULT_URL = "https://api.resend.com"
PAGE = 100


class ResendMail:
    """The adapter for `POST /emails`."""

    # Resend keeps a key for 24 hours.
    repeatable_for = timedelta(hours=23)
    grace = timedelta(minutes=5)

    def __init__(self, api_key: str, *, url: str = DEFAULT_URL) -> None:
        self._wire = Wire("Resend", url, {"Authorization": f"Bearer {api_key}"})

    async def call(self, key: str, mail: dict[str, Any]) -> str:
        """Send a mail, once for a key, and return its id. The mail must be the same in every attempt."""
        response = await self._wire.make(
            "POST",
            "/emails",
            headers={"Idempotency-Key": key, "Content-Type": "application/json"},
            content=orjson.dumps(mail),
        )
        mail_id = response.fields.get("id")
        if response.is_success and isinstance(mail_id, str) and mail_id:
            return mail_id
        if response.is_success:
            raise EffectUnknown("Resend took the mail and gave no id.")
        raise self._wire.failure(response, reused=response.fields.get("name") == "invalid_idempotent_request")

    async def lookup(self, key: str) -> Answer:
        """Always CannotTell: Resend cannot be asked for a key."""
        return CannotTell("Resend cannot be asked for an idempotency key.")

    async def list(self, since: datetime) -> AsyncIterator[ProviderEntry]:
        """The mails that were sent since then, the newest first, without their keys."""
        place = ""
        while True:
            query = {"limit": PAGE} | ({"after": place} if place else {})
            page = (await self._wire.read(f"/emails?{urlencode(query)}")).fields
            mails = page.get("data")
            if not isinstance(mails, list):
                raise ProviderUnavailable("Resend gave a list that cannot be read.")
            for mail in mails:
                made_at = moment(mail["created_at"])
                if made_at < since:
                    return
                yield ProviderEntry(reference=mail["id"], key=None, made_at=made_at)
            if not mails or not page.get("has_more"):
                return
            place = mails[-1]["id"]

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()
