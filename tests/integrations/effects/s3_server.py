"""The wire of S3: put with a checksum and a condition, head, list with a token. Every signature is checked."""

import base64
import hashlib
from datetime import UTC, datetime
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape

from atlas.outgoing.s3_signature import S3Credentials, signed_headers
from tests.integrations.effects.provider_server import Asked, ProviderServer, WireReply

LOGIN = S3Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "eu-central-1")
BUCKET = "papers"


class S3Server(ProviderServer):
    """One bucket: content, checksum and time by name. A page of its list has `page` objects."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, tuple[bytes, str, datetime]] = {}
        self.page = 2

    def make(self, asked: Asked, *, again: bool = False) -> WireReply:
        if not self._is_signed(asked):
            return WireReply(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        checksum = base64.b64encode(hashlib.sha256(asked.body).digest()).decode()
        if asked.headers["x-amz-checksum-sha256"] != checksum:
            return WireReply(400, b"<Error><Code>BadDigest</Code></Error>")
        name = asked.path.removeprefix(f"/{BUCKET}/")
        if asked.headers.get("if-none-match") == "*" and name in self.objects:
            return WireReply(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        self.objects[name] = (asked.body, checksum, datetime.now(UTC))
        return WireReply(200, b"", {"ETag": '"1"', "x-amz-checksum-sha256": checksum})

    def show(self, asked: Asked) -> WireReply:
        if not self._is_signed(asked):
            return WireReply(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        if asked.method == "HEAD":
            found = self.objects.get(asked.path.removeprefix(f"/{BUCKET}/"))
            shows = asked.headers.get("x-amz-checksum-mode") == "ENABLED"
            headers = {"x-amz-checksum-sha256": found[1]} if found is not None and shows else {}
            return WireReply(404 if found is None else 200, b"", headers)
        names = sorted(name for name in self.objects if name.startswith(asked.query["prefix"]))
        start = int(asked.query.get("continuation-token", "0"))
        end = start + self.page
        contents = "".join(
            f"<Contents><Key>{escape(name)}</Key>"
            f"<LastModified>{self.objects[name][2].strftime('%Y-%m-%dT%H:%M:%S.000Z')}</LastModified></Contents>"
            for name in names[start:end]
        )
        more = end < len(names)
        token = f"<NextContinuationToken>{end}</NextContinuationToken>" if more else ""
        listed = f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}{contents}"
        return WireReply(
            200,
            f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{listed}</ListBucketResult>'.encode(),
        )

    def _is_signed(self, asked: Asked) -> bool:
        """Whether the signature is that of the request as it arrived."""
        given = asked.headers["authorization"]
        names = given.split("SignedHeaders=")[1].split(",")[0].split(";")
        ours = {"host", "x-amz-date", "x-amz-content-sha256"}
        headers = {name: asked.headers[name] for name in names if name not in ours}
        moment = datetime.strptime(asked.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        path = quote(asked.path) + (f"?{urlencode(asked.query, quote_via=quote)}" if asked.query else "")
        signed = signed_headers(LOGIN, asked.method, f"{self.url}{path}", headers, asked.body, moment)
        return signed["authorization"] == given
