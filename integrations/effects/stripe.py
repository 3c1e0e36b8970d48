"""Charges of Stripe, or of a provider with its API: an Idempotency-Key on the call, and the key in the metadata.

Stripe keeps a key for at least 24 hours and returns the first result for it, a failure of its own too. Its list shows a
charge as soon as there is one; its search may be an hour behind. So a lookup searches, and lists the last hour.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from atlas.engine.effects.adapters import EffectUnknown, ProviderEntry, ProviderUnavailable
from atlas.engine.effects.outcomes import Answer, CannotTell, Done, NotDone
from atlas.integrations.effects.wire import ProviderResponse, Wire, moment

DEFAULT_URL = "https://api.stripe.com"
PAGE = 100
# The name of the metadata field that holds the effect's key.
FIELD = "atlas_key"
SEARCH_LAG = timedelta(hours=1)


class StripeCharges:
    """The adapter for `POST /v1/charges`. With `all_charges`, charges that Atlas did not make are listed too."""

    # Stripe may remove a key after 24 hours.
    repeatable_for = timedelta(hours=23)
    grace = timedelta(minutes=5)

    def __init__(self, api_key: str, *, url: str = DEFAULT_URL, version: str = "", all_charges: bool = True) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} | ({"Stripe-Version": version} if version else {})
        self._wire = Wire("Stripe", url, headers)
        self._all_charges = all_charges

    async def call(self, key: str, **charge: Any) -> str:
        """Charge, once for a key, and return the id of the charge: `call(key, amount=500, currency="eur", …)`."""
        metadata = {**charge.pop("metadata", {}), FIELD: key}
        response = await self._wire.make(
            "POST",
            "/v1/charges",
            headers={"Idempotency-Key": key, "Content-Type": "application/x-www-form-urlencoded"},
            content=form({**charge, "metadata": metadata}),
        )
        charge_id = response.fields.get("id")
        if response.is_success and isinstance(charge_id, str):
            return charge_id
        if response.is_success:
            raise EffectUnknown("Stripe made a charge and did not say which.")
        raise self._wire.failure(response, reused=_error_type(response) == "idempotency_error")

    async def lookup(self, key: str) -> Answer:
        """Search for the key, and list the last hour, which the search may not know yet."""
        try:
            query = quote(f"metadata['{FIELD}']:'{_escaped(key)}'", safe="")
            page = await self._wire.read(f"/v1/charges/search?query={query}&limit={PAGE}")
            entries = [self._entry(charge) for charge in _data(page) if _was_made(charge)]
            if not entries:
                since = datetime.now(UTC) - SEARCH_LAG - self.grace
                entries = [entry async for entry in self.list(since) if entry.key == key]
        except ProviderUnavailable as error:
            return CannotTell(error.message)
        return Done(entries[0].reference) if entries else NotDone()

    async def list(self, since: datetime) -> AsyncIterator[ProviderEntry]:
        """The charges since then, the newest first; charges that failed are left out."""
        place = ""
        while True:
            query = {"created[gte]": int(since.timestamp()), "limit": PAGE} | (
                {"starting_after": place} if place else {}
            )
            page = await self._wire.read(f"/v1/charges?{urlencode(query)}")
            charges = _data(page)
            for charge in charges:
                entry = self._entry(charge)
                if _was_made(charge) and (entry.key is not None or self._all_charges):
                    yield entry
            if not charges or not page.fields.get("has_more"):
                return
            place = charges[-1]["id"]

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    def _entry(self, charge: dict[str, Any]) -> ProviderEntry:
        metadata = charge.get("metadata") or {}
        return ProviderEntry(reference=charge["id"], key=metadata.get(FIELD), made_at=moment(charge["created"]))


def form(values: Mapping[str, Any]) -> bytes:
    """The values as Stripe's form: `metadata[name]` for what is nested, `items[0]` for what is in a list."""

    def flat(name: str, value: Any) -> list[tuple[str, str]]:
        if isinstance(value, Mapping):
            return [pair for field, inner in value.items() for pair in flat(f"{name}[{field}]", inner)]
        if isinstance(value, list | tuple):
            return [pair for index, inner in enumerate(value) for pair in flat(f"{name}[{index}]", inner)]
        if isinstance(value, bool):
            return [(name, "true" if value else "false")]
        return [] if value is None else [(name, str(value))]

    return urlencode([pair for name, value in values.items() for pair in flat(name, value)]).encode()


def _was_made(charge: dict[str, Any]) -> bool:
    """False for a declined charge, which Stripe keeps as a record."""
    return charge.get("status") != "failed"


def _data(response: ProviderResponse) -> list[dict[str, Any]]:
    charges = response.fields.get("data")
    if not isinstance(charges, list):
        raise ProviderUnavailable("Stripe gave a list that cannot be read.")
    return charges


def _error_type(response: ProviderResponse) -> str:
    error = response.fields.get("error")
    return str(error.get("type", "")) if isinstance(error, dict) else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
