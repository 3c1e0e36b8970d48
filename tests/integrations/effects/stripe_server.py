"""The wire of Stripe's charges: create by key, list with a cursor, search by metadata with a delay."""

import re
import time
from typing import Any
from urllib.parse import parse_qs

from tests.integrations.effects.provider_server import Asked, ProviderServer, WireReply

API_KEY = "sk_test_1"


class StripeServer(ProviderServer):
    """Charges, the newest last. The search shows those before `searchable`; the list those before `listed`."""

    def __init__(self) -> None:
        super().__init__()
        self.charges: list[dict[str, Any]] = []
        self.keys: dict[str, tuple[bytes, WireReply]] = {}
        self.searchable: int | None = None
        self.listed: int | None = None

    def charge(self, key: str | None, *, created: float | None = None, status: str = "succeeded") -> dict[str, Any]:
        """Make a charge."""
        made = {
            "id": f"ch_{len(self.charges) + 1}",
            "object": "charge",
            "created": int(time.time() if created is None else created),
            "status": status,
            "metadata": {} if key is None else {"atlas_key": key},
        }
        self.charges.append(made)
        return made

    def make(self, asked: Asked, *, again: bool = False) -> WireReply:
        if asked.headers.get("authorization") != f"Bearer {API_KEY}":
            return _error(401, "invalid_request_error", "Invalid API Key provided")
        form = {name: values[-1] for name, values in parse_qs(asked.body.decode()).items()}
        key = asked.headers["idempotency-key"]
        if key in self.keys and not again:
            body, answer = self.keys[key]
            return answer if body == asked.body else _error(400, "idempotency_error", "Keys are for one request")
        declined = form.get("source") == "tok_chargeDeclined"
        made = self.charge(form["metadata[atlas_key]"], status="failed" if declined else "succeeded")
        answer = _error(402, "card_error", "Your card was declined.") if declined else WireReply(200, made)
        self.keys[key] = (asked.body, answer)
        return answer

    def show(self, asked: Asked) -> WireReply:
        if asked.path == "/v1/charges/search":
            wanted = re.fullmatch(r"metadata\['atlas_key'\]:'(.*)'", asked.query["query"])
            assert wanted is not None
            found = [made for made in self.charges[: self.searchable] if made["metadata"].get("atlas_key") == wanted[1]]
            return WireReply(200, {"object": "search_result", "data": found, "has_more": False})
        newest_first = [
            made for made in self.charges[: self.listed] if made["created"] >= int(asked.query["created[gte]"])
        ]
        newest_first.reverse()
        after = asked.query.get("starting_after")
        start = 0 if after is None else [made["id"] for made in newest_first].index(after) + 1
        page = newest_first[start : start + int(asked.query["limit"])]
        return WireReply(200, {"object": "list", "data": page, "has_more": start + len(page) < len(newest_first)})


def _error(status: int, kind: str, message: str) -> WireReply:
    return WireReply(status, {"error": {"type": kind, "message": message}})
