"""Signs requests to S3 and to servers like it (AWS Signature Version 4)."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """A key that may put objects, and the region of its bucket."""

    key_id: str
    secret: str = field(repr=False)
    region: str = "us-east-1"


def signed_headers(
    credentials: S3Credentials, url: str, body: bytes, headers: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """The headers of a PUT, with the signature and the digests that a bucket with object lock asks for."""
    parts, digest = urlsplit(url), hashlib.sha256(body)
    signed = {
        **headers,
        "host": parts.netloc,
        "x-amz-checksum-sha256": base64.b64encode(digest.digest()).decode(),
        "x-amz-content-sha256": digest.hexdigest(),
        "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
    }
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    request = "\n".join(("PUT", parts.path, parts.query, lines, names, digest.hexdigest()))
    scope = f"{now:%Y%m%d}/{credentials.region}/s3/aws4_request"
    to_sign = "\n".join(("AWS4-HMAC-SHA256", signed["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    credential = f"Credential={credentials.key_id}/{scope}"
    return {
        **{name: value for name, value in signed.items() if name != "host"},
        "authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}",
    }
