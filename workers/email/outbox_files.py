"""The outbox: mails as files, `<home>/outbox/<tenant>/<job id>.eml`, for set-ups that send nothing to anyone.

A file appears whole or not at all, under the id of the job that made it, so that a job that runs twice still
makes one mail.
"""

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage
from heapq import nlargest
from pathlib import Path
from uuid import UUID

from atlas.db.pg_json import stored_text
from atlas.errors import AtlasError, NotFound

ENDING = ".eml"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
# Names a mail that is not whole yet, together with process and thread: others may share the folder.
_OURS = secrets.token_hex(8)
# What the parser of the standard library raises at heads that nobody should write.
_MALFORMED = (MessageError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class OutboxMail:
    """One mail of the outbox, as a list shows it. `problem` says why nothing is known of what the file holds."""

    job_id: str
    tenant: str
    written_at: datetime
    sender: str = ""
    to: str = ""
    subject: str = ""
    size: int = 0
    problem: str | None = None


class MailUnreadable(AtlasError):
    """A file of the outbox, or its folder, is there and cannot be read."""


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
    """The newest mails first, of one tenant or of all; a file that cannot be read has its place among them."""
    found = []
    for path in _paths(folder, tenant):
        # The file may be gone by now, or be a link to one that is.
        with suppress(FileNotFoundError):
            found.append((path.lstat().st_mtime, path))
    return [_summary(path, written_at) for written_at, path in nlargest(limit, found)]


def read_mail(folder: Path, job_id: UUID, *, tenant: str | None = None) -> tuple[OutboxMail, EmailMessage, bytes]:
    """One mail: its line in the list, the parsed message, and the file as it is."""
    for path in _paths(folder, tenant):
        if path.stem == str(job_id):
            try:
                content, written_at = path.read_bytes(), path.stat().st_mtime
                message = message_from_bytes(content, policy=policy.default)
                message.items()  # A head is parsed when it is looked at, and refuses to be then.
                return _described(path, written_at, message, len(content)), message, content
            except (OSError, *_MALFORMED) as error:
                raise _unreadable(path, error) from error
    raise NotFound("mail of job", job_id, remedy="`atlas outbox list` shows the mails there are.")


def body_of(message: EmailMessage) -> str:
    """The words of a mail, plain where it has plain ones."""
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    try:
        return stored_text(str(part.get_content()))
    except (LookupError, UnicodeError):
        # A character set that nobody knows, or that is none for words.
        payload = part.get_payload(decode=True)
        return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def attachment_names(message: EmailMessage) -> list[str]:
    """The names of the files that go with a mail."""
    return [stored_text(part.get_filename() or "") for part in message.iter_attachments()]


def _paths(folder: Path, tenant: str | None) -> Iterator[Path]:
    try:
        tenants = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise _unreadable(folder, error) from error
    for place in tenants:
        if place.is_dir() and (tenant is None or place.name == tenant):
            yield from place.glob(f"*{ENDING}")


def _summary(path: Path, written_at: float) -> OutboxMail:
    try:
        content = path.read_bytes()
        message = message_from_bytes(content, policy=policy.default)
        return _described(path, written_at, message, len(content))
    except (OSError, *_MALFORMED) as error:
        return replace(_named(path, written_at), problem=_reason(path, error))


def _described(path: Path, written_at: float, message: EmailMessage, size: int) -> OutboxMail:
    sender, to, subject = (stored_text(str(message[name] or "")) for name in ("From", "To", "Subject"))
    return replace(_named(path, written_at), sender=sender, to=to, subject=subject, size=size)


def _named(path: Path, written_at: float) -> OutboxMail:
    return OutboxMail(stored_text(path.stem), stored_text(path.parent.name), datetime.fromtimestamp(written_at, UTC))


def _unreadable(path: Path, error: Exception) -> MailUnreadable:
    return MailUnreadable(f"{path} cannot be read: {_reason(path, error)}.", remedy="Look at the file, or remove it.")


def _reason(path: Path, error: Exception) -> str:
    if not isinstance(error, OSError):
        return "it is not a mail"
    return "it is a link to nothing" if path.is_symlink() and not path.exists() else error.strerror or str(error)
