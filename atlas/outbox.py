"""The outbox: mails as files, `<home>/outbox/<tenant>/<job id>.eml`, for set-ups that send nothing to anyone.

A file appears whole or not at all, under the id of the job that made it, so that a job that runs twice still
makes one mail.
"""

import os
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_binary_file, policy
from email.message import EmailMessage
from pathlib import Path
from typing import IO
from uuid import UUID

from atlas.errors import NotFound

ENDING = ".eml"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
# Names a mail that is not whole yet, together with process and thread: others may share the folder.
_OURS = secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class OutboxMail:
    """One mail of the outbox, as a list shows it."""

    job_id: str
    tenant: str
    written_at: datetime
    sender: str
    to: str
    subject: str
    size: int


def outbox_folder(home: Path) -> Path:
    """Where the mails of an installation are."""
    return home / "outbox"


def write_mail(folder: str, tenant: str, job_id: UUID, content: bytes) -> None:
    """Put one mail into the outbox, in place of an earlier one of the same job."""
    name = f"{folder}/{tenant}/{job_id}{ENDING}"
    # One name again and again: the file system is quicker with a name it knows.
    scratch = f"{folder}/{tenant}/.{_OURS}.{os.getpid()}.{threading.get_ident()}"
    try:
        handle = os.open(scratch, _CREATE, 0o600)
    except FileNotFoundError:
        os.makedirs(f"{folder}/{tenant}", mode=0o700, exist_ok=True)
        handle = os.open(scratch, _CREATE, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.rename(scratch, name)
    except OSError:
        os.unlink(scratch)
        raise
    finally:
        os.close(handle)


def list_mails(folder: Path, *, tenant: str | None = None, limit: int = 50) -> list[OutboxMail]:
    """The newest mails first, of one tenant or of all."""
    paths = sorted(_paths(folder, tenant), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return [_summary(path) for path in paths[:limit]]


def read_mail(folder: Path, job_id: UUID, *, tenant: str | None = None) -> tuple[OutboxMail, EmailMessage, bytes]:
    """One mail: its line in the list, the parsed message, and the file as it is."""
    for path in _paths(folder, tenant):
        if path.stem == str(job_id):
            with path.open("rb") as file:
                return _summary(path), _parse(file), path.read_bytes()
    raise NotFound("mail of job", job_id, remedy="`atlas outbox list` shows the mails there are.")


def body_of(message: EmailMessage) -> str:
    """The words of a mail, plain where it has plain ones."""
    part = message.get_body(preferencelist=("plain", "html"))
    return "" if part is None else str(part.get_content())


def attachment_names(message: EmailMessage) -> list[str]:
    """The names of the files that go with a mail."""
    return [part.get_filename() or "" for part in message.iter_attachments()]


def _paths(folder: Path, tenant: str | None) -> Iterator[Path]:
    tenants = sorted(folder.iterdir()) if folder.is_dir() else []
    for place in tenants:
        if place.is_dir() and (tenant is None or place.name == tenant):
            yield from place.glob(f"*{ENDING}")


def _summary(path: Path) -> OutboxMail:
    with path.open("rb") as file:
        message = _parse(file)
    about = path.stat()
    return OutboxMail(
        job_id=path.stem,
        tenant=path.parent.name,
        written_at=datetime.fromtimestamp(about.st_mtime, UTC),
        sender=str(message["From"] or ""),
        to=str(message["To"] or ""),
        subject=str(message["Subject"] or ""),
        size=about.st_size,
    )


def _parse(file: IO[bytes]) -> EmailMessage:
    return message_from_binary_file(file, policy=policy.default)
