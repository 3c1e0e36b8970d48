"""The wires of Resend's mails and of a mailbox of Microsoft Graph."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from atlas.engine.effects.adapters import GRAPH_KEY
from tests.integrations.effects.provider_server import Asked, ProviderServer, WireReply


class ResendServer(ProviderServer):
    """Mails, the newest last."""

    def __init__(self) -> None:
        super().__init__()
        self.mails: list[dict[str, Any]] = []
        self.keys: dict[str, tuple[bytes, str]] = {}

    def make(self, asked: Asked, *, again: bool = False) -> WireReply:
        key = asked.headers["idempotency-key"]
        if key in self.keys and not again:
            body, mail_id = self.keys[key]
            if body != asked.body:
                return WireReply(
                    409, {"statusCode": 409, "name": "invalid_idempotent_request", "message": "Other body."}
                )
            return WireReply(200, {"id": mail_id})
        mail = {"id": str(uuid4()), "created_at": datetime.now(UTC).isoformat(), "subject": asked.json["subject"]}
        self.mails.append(mail)
        self.keys[key] = (asked.body, mail["id"])
        return WireReply(200, {"id": mail["id"]})

    def show(self, asked: Asked) -> WireReply:
        newest_first = self.mails[::-1]
        after = asked.query.get("after")
        start = 0 if after is None else [mail["id"] for mail in newest_first].index(after) + 1
        page = newest_first[start : start + int(asked.query["limit"])]
        return WireReply(200, {"object": "list", "data": page, "has_more": start + len(page) < len(newest_first)})


class GraphServer(ProviderServer):
    """The messages of one mailbox. `page` messages are on a page of Sent Items."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, dict[str, Any]] = {}
        self.page = 2

    def makes(self, asked: Asked) -> bool:
        return asked.path.endswith("/send")

    def make(self, asked: Asked, *, again: bool = False) -> WireReply:
        message = self.messages.get(asked.path.split("/messages/")[1].removesuffix("/send"))
        if message is None or not message["isDraft"]:
            return WireReply(404, {"error": {"code": "ErrorItemNotFound"}})
        message["isDraft"], message["sentDateTime"] = False, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return WireReply(202, b"")

    def show(self, asked: Asked) -> WireReply:
        assert asked.headers["authorization"] == "Bearer token-1"
        if asked.method == "POST":
            message = {**asked.json, "id": f"AAMk{len(self.messages)}=", "isDraft": True}
            self.messages[message["id"]] = message
            return WireReply(201, message)
        if asked.path.endswith("/mailFolders/sentitems/messages"):
            return self._sent(asked)
        wanted = re.search(r"ep/value eq '(.*)'\)", asked.query["$filter"])
        assert wanted is not None
        found = [message for message in self.messages.values() if wanted[1] in _keys(message)]
        return WireReply(200, {"value": [{"id": message["id"], "isDraft": message["isDraft"]} for message in found]})

    def _sent(self, asked: Asked) -> WireReply:
        since = asked.query["$filter"].removeprefix("sentDateTime ge ")
        assert GRAPH_KEY in asked.query["$expand"]
        sent = [message for message in self.messages.values() if not message["isDraft"]]
        listed = [message for message in sent if message["sentDateTime"] >= since]
        start = int(asked.query.get("$skip", "0"))
        page = {"value": listed[start : start + self.page]}
        if start + self.page < len(listed):
            rest = "&".join(
                f"{name}={value}".replace(" ", "%20") for name, value in asked.query.items() if name != "$skip"
            )
            page["@odata.nextLink"] = f"{self.url}{asked.path}?{rest}&$skip={start + self.page}"  # type: ignore[assignment]
        return WireReply(200, page)

    def sent_by_hand(self, *, days_ago: int = 0) -> None:
        """A mail that a person sent, without a key."""
        sent_at = (datetime.now(UTC) - timedelta(days=days_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        message_id = f"AAMk{len(self.messages)}="
        self.messages[message_id] = {"id": message_id, "isDraft": False, "sentDateTime": sent_at}


def _keys(message: dict[str, Any]) -> list[str]:
    held = message.get("singleValueExtendedProperties", ())
    return [prop["value"] for prop in held if prop["id"] == GRAPH_KEY]
