"""Reads the outbox: the mails in `<home>/outbox/<tenant>/<job id>.eml`, as lists and one by one."""

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
# What the parser of the standard library raises on malformed headers.
_MALFORMED = (MessageError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class OutboxMail:
    """One mail of the outbox, as a list shows it. `problem` says why the file could not be read."""

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


def list_mails(folder: Path, *, tenant: str | None = None, limit: int = 50) -> list[OutboxMail]:
    """The newest mails first, of one tenant or of all; a file that cannot be read is listed too."""
    found = []
    for path in _paths(folder, tenant):
        # The file may be gone by now, or be a link to one that is.
        with suppress(FileNotFoundError):
            found.append((path.lstat().st_mtime, path))
    return [_summary(path, written_at) for written_at, path in nlargest(limit, found)]


def read_mail(folder: Path, job_id: UUID, *, tenant: str | None = None) -> tuple[OutboxMail, EmailMessage, bytes]:
    """One mail: its summary, the parsed message, and the file as it is."""
    for path in _paths(folder, tenant):
        if path.stem == str(job_id):
            try:
                content, written_at = path.read_bytes(), path.stat().st_mtime
                message = message_from_bytes(content, policy=policy.default)
                message.items()  # A header is parsed, and may be refused, when it is read.
                return _described(path, written_at, message, len(content)), message, content
            except (OSError, *_MALFORMED) as error:
                raise _unreadable(path, error) from error
    raise NotFound("mail of job", job_id, remedy="`atlas outbox list` shows the mails there are.")


def body_of(message: EmailMessage) -> str:
    """The text of a mail: the plain one where it has one."""
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    try:
        return stored_text(str(part.get_content()))
    except (LookupError, UnicodeError):
        # An unknown character set, or one that is not for text.
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
    for one in tenants:
        if one.is_dir() and (tenant is None or one.name == tenant):
            yield from one.glob(f"*{ENDING}")


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
