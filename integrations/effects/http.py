"""HTTP with an Idempotency-Key, by the IETF draft: 409 while the first request is under way, 422 for a reused key.

The draft says nothing about looking up a key and listing. A service that can do both names its addresses; for others a
lookup cannot tell, and there is nothing to reconcile with.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urljoin

import orjson

from atlas.engine.effects.adapters import EffectUnknown, ProviderEntry, ProviderUnavailable
from atlas.engine.effects.outcomes import Answer, CannotTell, Done, NotDone
from atlas.integrations.effects.wire import ProviderResponse, Wire, moment
from atlas.outgoing.guarded_transport import Networks
from atlas.outgoing.http import FAILURES

# A server may respond with these only to a request that it has not carried out.
REUSED = 422
NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class HttpShape:
    """Where a service keeps what: the addresses of its effects, and the fields of its JSON.

    `lookup` and `list` may hold `{key}` and `{since}`. A list is an array, or an object with one in `items`; the next
    page is the link `next` of the Link header.
    """

    lookup: str = ""
    list: str = ""
    items: str = "data"
    reference: str = "id"
    key: str = "idempotency_key"
    made_at: str = "created_at"


class HttpEffects:
    """The adapter for a service. With `guarded`, tenants may choose the address: it connects to public ones only."""

    grace = timedelta(minutes=15)

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        shape: HttpShape | None = None,
        repeatable_for: timedelta = timedelta(hours=23),
        guarded: bool = False,
        allowed: Networks = (),
    ) -> None:
        self._wire = Wire("The service", url, headers or {}, guarded=guarded, allowed=allowed)
        self._shape = shape or HttpShape()
        self.repeatable_for = repeatable_for

    async def call(self, key: str, path: str, body: Any, *, method: str = "POST") -> str:
        """Make a request, once for a key, and return the reference: the field of the response, or its Location."""
        # The field is a structured string: in quotes.
        quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
        headers = {"Idempotency-Key": quoted, "Content-Type": "application/json"}
        response = await self._wire.make(method, path, headers=headers, content=orjson.dumps(body))
        if response.is_success:
            reference = response.fields.get(self._shape.reference) or response.headers.get("location")
            if not reference:
                raise EffectUnknown("The service made it and gave no reference.")
            return str(reference)
        raise self._wire.failure(response, reused=response.status == REUSED)

    async def lookup(self, key: str) -> Answer:
        """Ask the service for the key, where it has an address for that."""
        if not self._shape.lookup:
            return CannotTell("The service has no address to look up a key.")
        try:
            response = await self._wire.request("GET", self._shape.lookup.replace("{key}", quote(key, safe="")))
            items = [] if response.status == NOT_FOUND else self._items(response)
        except (*FAILURES, ProviderUnavailable) as error:
            return CannotTell(f"The service could not be asked: {error}")
        matches = [item for item in items if str(item.get(self._shape.key, key)) == key]
        return Done(str(matches[0][self._shape.reference])) if matches else NotDone()

    async def list(self, since: datetime) -> AsyncIterator[ProviderEntry]:
        """What the service has since then, page by page."""
        shape = self._shape
        if not shape.list:
            raise ProviderUnavailable(
                "The service has no address to list its effects.", remedy="Name it with HttpShape(list=…)."
            )
        moment_text = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path: str | None = shape.list.replace("{since}", quote(moment_text, safe=""))
        while path:
            page = await self._wire.read(path)
            for item in self._items(page):
                made_at = moment(item[shape.made_at])
                if made_at >= since:
                    yield ProviderEntry(reference=str(item[shape.reference]), key=item.get(shape.key), made_at=made_at)
            link = _next_page(page)
            path = link and urljoin(f"{self._wire.url}/", link)

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    def _items(self, response: ProviderResponse) -> Sequence[dict[str, Any]]:
        """The objects of a list, or the one object that the response is."""
        body = response.json
        if response.is_success and isinstance(body, list):
            return body
        if response.is_success and isinstance(body, dict):
            items = body.get(self._shape.items)
            return items if isinstance(items, list) else [body]
        raise ProviderUnavailable(
            f"The service responded with {response.status}: {response.said or 'no reason given'}."
        )


def _next_page(response: ProviderResponse) -> str | None:
    """The address of the next page, from the Link header."""
    for link in response.headers.get("link", "").split(","):
        address, _, parameters = link.strip().partition(";")
        if 'rel="next"' in parameters or "rel=next" in parameters:
            return str(address.strip("<> "))
    return None
