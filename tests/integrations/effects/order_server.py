"""A service by the Idempotency-Key draft, which can be asked for a key and lists with the Link header."""

import json
from datetime import UTC, datetime
from typing import Any

from tests.integrations.effects.provider_server import Asked, ProviderServer, WireReply


class OrderServer(ProviderServer):
    """Orders, the oldest first; two on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[dict[str, Any]] = []
        self.keys: dict[str, tuple[bytes, dict[str, Any]]] = {}

    def make(self, asked: Asked, *, again: bool = False) -> WireReply:
        if "idempotency-key" not in asked.headers:
            return WireReply(400, {"title": "Idempotency-Key is missing"})
        key = json.loads(asked.headers["idempotency-key"])
        if key in self.keys and not again:
            body, order = self.keys[key]
            return WireReply(201, order) if body == asked.body else WireReply(422, {"title": "The key is already used"})
        order = {
            "id": len(self.orders) + 1,
            "idempotency_key": key,
            "created_at": datetime.now(UTC).isoformat(),
        }
        self.orders.append(order)
        self.keys[key] = (asked.body, order)
        return WireReply(201, order)

    def show(self, asked: Asked) -> WireReply:
        if "key" in asked.query:
            return WireReply(200, [order for order in self.orders if order["idempotency_key"] == asked.query["key"]])
        start = int(asked.query.get("page", "0")) * 2
        headers = {}
        if start + 2 < len(self.orders):
            headers["Link"] = f'</orders?since={asked.query["since"]}&page={start // 2 + 1}>; rel="next"'
        return WireReply(200, self.orders[start : start + 2], headers)
