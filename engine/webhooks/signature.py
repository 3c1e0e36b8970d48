"""Signs and checks messages over HTTP, by the scheme of Standard Webhooks.

The signature is HMAC-SHA256 over `<id>.<timestamp>.<body>`, in base64, behind `v1,`. The headers `webhook-id`,
`webhook-timestamp` (seconds since 1970) and `webhook-signature` carry the three.
"""

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping, Sequence

from atlas.errors import AtlasError

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
PREFIX = "whsec_"
VERSION = "v1,"
SECRET_BYTES = 32
# A sender that changes its secret signs with the old and the new one. More are not looked at.
MAX_SIGNATURES = 10


class NotAccepted(AtlasError):
    """The message is not signed with the hook's secret, or too old."""


def new_secret() -> str:
    """A new secret, `whsec_` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sign(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a message that is signed with each of the secrets."""
    signatures = " ".join(_signature(secret, id, str(timestamp), body) for secret in secrets)
    return {ID: id, TIMESTAMP: str(timestamp), SIGNATURE: signatures}


def is_signed(secrets: Sequence[str], headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a signature is right for one of the secrets, compared in constant time.

    The age of the timestamp is not checked.
    """
    id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    expected = [_signature(secret, id, timestamp, body).encode() for secret in secrets]
    signatures = [signature.encode() for signature in headers.get(SIGNATURE, "").split(" ")[:MAX_SIGNATURES]]
    return any(hmac.compare_digest(digest, other) for digest in expected for other in signatures)


def _signature(secret: str, id: str, timestamp: str, body: bytes) -> str:
    digest = hmac.digest(_key(secret), f"{id}.{timestamp}.".encode() + body, "sha256")
    return VERSION + base64.b64encode(digest).decode()


def _key(secret: str) -> bytes:
    """The bytes behind a secret: those in base64 after `whsec_`, or else its text."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret.encode()
