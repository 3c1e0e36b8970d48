"""Signs requests to S3 and to servers like it (AWS Signature Version 4)."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, unquote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """The key of a login and the region of its bucket; a temporary login has a token too."""

    key_id: str
    secret: str = field(repr=False)
    region: str = "us-east-1"
    session_token: str = field(default="", repr=False)


def signed_headers(
    credentials: S3Credentials, method: str, url: str, headers: Mapping[str, str], content: bytes, now: datetime
) -> dict[str, str]:
    """The headers of the request with date, content hash and signature. `now` is in UTC."""
    parts = urlsplit(url)
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{credentials.region}/s3/aws4_request"
    sent = {**headers, "x-amz-date": moment, "x-amz-content-sha256": hashlib.sha256(content).hexdigest()}
    if credentials.session_token:
        sent["x-amz-security-token"] = credentials.session_token
    signed = {name.lower(): " ".join(value.split()) for name, value in {**sent, "host": parts.netloc}.items()}
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        (
            method,
            quote(unquote(parts.path) or "/", safe="/-_.~"),
            _canonical_query(parts.query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            signed["x-amz-content-sha256"],
        )
    )
    to_sign = "\n".join((ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    authorization = f"{ALGORITHM} Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**sent, "authorization": authorization}


def _canonical_query(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    encoded = [(quote(unquote(name), safe="-_.~"), quote(unquote(value), safe="-_.~")) for name, _, value in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))
