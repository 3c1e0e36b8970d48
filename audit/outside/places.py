"""The places of ATLAS_CHECKPOINT_COPIES: folders, HTTPS servers, buckets with object lock, time stamp authorities."""

import os
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

import httpx

from atlas.audit.keys import checkpoint_folder
from atlas.audit.outside.timestamps import BadTimestamp, accepted_token, timestamp_request
from atlas.errors import AtlasError
from atlas.outgoing.http import FAILURES, http_client
from atlas.outgoing.s3_signature import S3Credentials, signed_headers
from atlas.settings import Settings


class CopyFailed(AtlasError):
    """A place did not take the copy of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A signed checkpoint to copy. Its name sorts by the size of the tree, and is the same when it is sent again."""

    log: str
    size: int
    note: str

    @property
    def name(self) -> str:
        """The name of the file or object, as a verification reads it: `--checkpoints FOLDER`."""
        return f"{self.log}-{self.size:012}.checkpoints"


class OutsidePlace(Protocol):
    """Somewhere outside the database. `address` is shown; it holds no secret."""

    address: str

    async def store(self, copy: Copy) -> None:
        """Store a copy; CopyFailed if it was not stored."""


def places_of(settings: Settings) -> list[OutsidePlace]:
    """The places that the settings name."""
    return [_place(address, settings) for address in settings.atlas_checkpoint_copies or ()]


def copied_folders(settings: Settings) -> list[Path]:
    """The folders among them, which a verification on this machine can read."""
    return [Path(urlsplit(place).path) for place in settings.atlas_checkpoint_copies or () if place.startswith("file:")]


def _place(address: str, settings: Settings) -> OutsidePlace:
    match urlsplit(address).scheme:
        case "file":
            return FolderPlace(address)
        case "s3":
            return BucketPlace(address, settings)
        case "tsa":
            return TimestampPlace(address, settings)
        case _:
            return WebPlace(address, settings.atlas_checkpoint_token)


class FolderPlace:
    """A folder on another machine or medium: one file a copy, which is never written again."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._folder = Path(urlsplit(address).path)

    async def store(self, copy: Copy) -> None:
        """Write the copy, unless it is there."""
        _write_once(self._folder / copy.name, copy.note.encode())


class WebPlace:
    """A server that takes copies with PUT, below an address."""

    def __init__(self, address: str, token: str | None) -> None:
        self.address = address
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def store(self, copy: Copy) -> None:
        """Send the copy. A server that has it may respond with 409 or 412."""
        headers = {"Content-Type": "text/plain; charset=utf-8", "If-None-Match": "*", **self._headers}
        response = await _send("PUT", f"{self.address}/{quote(copy.name)}", copy.note.encode(), headers)
        if response.status_code not in (409, 412):
            _require_success(self.address, response)


class BucketPlace:
    """A bucket of S3 or of a server like it, with object lock: the copy cannot be deleted before its time."""

    def __init__(self, address: str, settings: Settings) -> None:
        self.address = address
        parts = urlsplit(address)
        self._path = "/".join(part for part in (parts.netloc, parts.path.strip("/")) if part)
        self._endpoint = settings.atlas_bucket_endpoint
        self._lock = timedelta(days=settings.atlas_checkpoint_lock_days)
        id, secret = settings.atlas_bucket_access_key_id, settings.atlas_bucket_secret_access_key
        self._credentials = S3Credentials(id or "", secret or "", settings.atlas_bucket_region)

    async def store(self, copy: Copy) -> None:
        """Put the object, locked in compliance mode."""
        url, body = f"{self._endpoint}/{self._path}/{quote(copy.name)}", copy.note.encode()
        now = datetime.now(UTC)
        # A bucket with object lock asks for a checksum.
        checksum = {"x-amz-checksum-sha256": b64encode(sha256(body).digest()).decode()}
        locked = {
            "content-type": "text/plain; charset=utf-8",
            "x-amz-object-lock-mode": "COMPLIANCE",
            "x-amz-object-lock-retain-until-date": f"{now + self._lock:%Y-%m-%dT%H:%M:%SZ}",
        }
        headers = checksum | (locked if self._lock else {})
        headers = signed_headers(self._credentials, "PUT", url, headers, body, now)
        _require_success(self.address, await _send("PUT", url, body, headers))


class TimestampPlace:
    """A time stamp authority (RFC 3161). Its tokens are kept beside the checkpoints, with the note that each is of."""

    def __init__(self, address: str, settings: Settings) -> None:
        self.address = address
        self._url = address.removeprefix("tsa:")
        self._folder = checkpoint_folder(settings) / "timestamps"

    async def store(self, copy: Copy) -> None:
        """Have the note stamped, and keep it with the response."""
        note = copy.note.encode()
        query, imprint = timestamp_request(note)
        headers = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}
        response = await _send("POST", self._url, query, headers)
        _require_success(self.address, response)
        try:
            token = accepted_token(response.content, imprint)
        except BadTimestamp as error:
            raise CopyFailed(f"{self.address} did not stamp the checkpoint: {error}.") from error
        _write_once(self._folder / f"{copy.name}.note", note)
        _write_once(self._folder / f"{copy.name}.tsr", token)


async def _send(method: str, url: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
    try:
        async with http_client() as client:
            return await client.request(method, url, content=body, headers=headers)
    except FAILURES as error:
        raise CopyFailed(f"{urlsplit(url).netloc} cannot be reached: {str(error) or type(error).__name__}.") from error


def _require_success(address: str, response: httpx.Response) -> None:
    if not response.is_success:
        raise CopyFailed(f"{address} responded with {response.status_code}: {response.text[:200].strip()}")


def _write_once(path: Path, content: bytes) -> None:
    """Write a file that no one writes again: complete under its name, or not there."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.chmod(0o444)
        scratch.rename(path)
    except OSError as error:
        raise CopyFailed(f"The copy could not be written to {path.parent}: {error.strerror or error}.") from error
