"""Objects of S3, or of a store with its API: the effect's key is the name of the object, which is written once.

A put carries the checksum, so that the store refuses a damaged body, and `If-None-Match: *`, so that it replaces
nothing. The name decides: an object that is there was put whole.
"""

import base64
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from atlas.engine.effects.adapters import EffectUnknown, KeyReused, ProviderEntry, ProviderUnavailable
from atlas.engine.effects.outcomes import Answer, CannotTell, Done, NotDone
from atlas.integrations.effects.wire import ProviderResponse, Wire, moment
from atlas.outgoing.http import FAILURES
from atlas.outgoing.s3_signature import S3Credentials, signed_headers

CHECKSUM = "x-amz-checksum-sha256"


class S3Objects:
    """The adapter for objects under a prefix of a bucket, by addresses of the form `url/bucket/prefix/key`."""

    # A put replaces nothing, however late it is repeated.
    repeatable_for = timedelta(days=3650)
    grace = timedelta(minutes=1)

    def __init__(self, credentials: S3Credentials, bucket: str, *, url: str = "", prefix: str = "") -> None:
        self._credentials = credentials
        self._bucket, self._prefix = bucket, prefix
        self._wire = Wire("The object store", url or f"https://s3.{credentials.region}.amazonaws.com", {})

    async def call(self, key: str, content: bytes, *, content_type: str = "application/octet-stream") -> str:
        """Put the object, and return its address. An object of that name with the same content is a success."""
        checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
        headers = {CHECKSUM: checksum, "content-type": content_type, "if-none-match": "*"}
        path = self._path(key)
        response = await self._wire.make(
            "PUT", path, headers=self._sign("PUT", path, headers, content), content=content
        )
        if response.is_success:
            return self._reference(key)
        if response.status != 412:
            raise self._wire.failure(response)
        return await self._already_there(key, checksum)

    async def lookup(self, key: str) -> Answer:
        """Ask for the head of the object."""
        try:
            response = await self._head(key)
        except FAILURES as error:
            return CannotTell(f"The object store could not be asked: {error}.")
        if response.is_success:
            return Done(self._reference(key))
        # A login that may not list the bucket gets a 403 for an object that is not there.
        return (
            NotDone() if response.status == 404 else CannotTell(f"The object store responded with {response.status}.")
        )

    async def list(self, since: datetime) -> AsyncIterator[ProviderEntry]:
        """The objects that were put since then, by name."""
        token = ""
        while True:
            query = {"list-type": "2", "max-keys": "1000", "prefix": self._prefix}
            query |= {"continuation-token": token} if token else {}
            path = f"/{quote(self._bucket)}?{urlencode(query, quote_via=quote)}"
            page = _parsed(await self._wire.read(path, headers=self._sign("GET", path, {}, b"")))
            for item in page.iterfind("Contents"):
                made_at = moment(item.findtext("LastModified", ""))
                if made_at >= since:
                    key = item.findtext("Key", "").removeprefix(self._prefix)
                    yield ProviderEntry(reference=self._reference(key), key=key, made_at=made_at)
            token = page.findtext("NextContinuationToken", "")
            if page.findtext("IsTruncated") != "true" or not token:
                return

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def _already_there(self, key: str, checksum: str) -> str:
        """A put of this name was first: it is this effect's own if the content is the same."""
        try:
            response = await self._head(key)
        except FAILURES as error:
            raise EffectUnknown(f"The object is there, and its checksum could not be read: {error}.") from error
        stored = response.headers.get(CHECKSUM)
        if response.is_success and stored == checksum:
            return self._reference(key)
        if response.is_success and stored is not None:
            raise KeyReused(f"The object {self._reference(key)} is there with another content.")
        raise EffectUnknown(f"The object {self._reference(key)} is there, and its checksum is not known.")

    async def _head(self, key: str) -> ProviderResponse:
        path = self._path(key)
        headers = self._sign("HEAD", path, {"x-amz-checksum-mode": "ENABLED"}, b"")
        return await self._wire.request("HEAD", path, headers=headers)

    def _sign(self, method: str, path: str, headers: dict[str, str], content: bytes) -> dict[str, str]:
        now = datetime.now(UTC)
        return signed_headers(self._credentials, method, self._wire.address(path), headers, content, now)

    def _path(self, key: str) -> str:
        return f"/{quote(self._bucket)}/{quote(self._prefix + key, safe='/-_.~')}"

    def _reference(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"


def _parsed(response: ProviderResponse) -> ElementTree.Element:
    """The document, without the namespace, which stores of other vendors leave out."""
    try:
        root = ElementTree.fromstring(response.content)
    except ElementTree.ParseError as error:
        raise ProviderUnavailable(f"The object store gave a list that cannot be read: {error}.") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root
