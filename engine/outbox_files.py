"""Reads the outbox: the mails in `<home>/outbox/<tenant>/<job id>.eml`, as lists and one by one."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage
from heapq import nlargest
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import UUID

from atlas.db.pg_json import stored_text
from atlas.errors import AtlasError, NotFound
from atlas.models.outbox import MailAttachment, OutboxMail

ENDING = ".eml"
# Where a mail is in the list: when it was written, and its job.
MailPosition: TypeAlias = tuple[datetime, str]
# What the parser of the standard library raises on malformed headers.
_MALFORMED = (MessageError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


class MailUnreadable(AtlasError):
    """A file of the outbox, or its folder, is there and cannot be read."""


def outbox_folder(home: Path) -> Path:
    """Where the mails of an installation are."""
    return home / "outbox"


def list_mails(
    folder: Path, *, tenant: str | None = None, limit: int = 50, before: MailPosition | None = None
) -> list[OutboxMail]:
    """The newest mails first, of one tenant or all, or those before one; a file that cannot be read is listed too."""
    mails = []
    for path in _paths(folder, tenant):
        # The file may be gone by now, or be a link to one that is.
        with suppress(FileNotFoundError):
            position = _time(path.lstat()), stored_text(path.stem)
            if before is None or position < before:
                mails.append((position, path))
    return [_summary(path, position[0]) for position, path in nlargest(limit, mails)]


def read_mail(folder: Path, job_id: UUID, *, tenant: str | None = None) -> tuple[OutboxMail, EmailMessage, bytes]:
    """One mail: its summary, the parsed message, and the file as it is."""
    for path in _paths(folder, tenant):
        if path.stem == str(job_id):
            try:
                content, written_at = path.read_bytes(), _time(path.stat())
                message = message_from_bytes(content, policy=policy.default)
                message.items()  # A header is parsed, and may be refused, when it is read.
                return _described(path, written_at, message, len(content)), message, content
            except (OSError, *_MALFORMED) as error:
                raise _unreadable(path, error) from error
    raise NotFound("mail of job", job_id, remedy="`atlas outbox list` lists the mails.")


def body_of(message: EmailMessage, forms: Sequence[Literal["plain", "html"]] = ("plain", "html")) -> str | None:
    """The text of a mail in the first of these forms that it has; None if it has none of them."""
    part = message.get_body(preferencelist=forms)
    if part is None:
        return None
    try:
        return stored_text(str(part.get_content()))
    except (LookupError, UnicodeError):
        # An unknown character set, or one that is not for text.
        payload = part.get_payload(decode=True)
        return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def attachments_of(message: EmailMessage) -> list[MailAttachment]:
    """The files that go with a mail."""
    return [_file(part) for part in message.iter_attachments()]


def _file(part: EmailMessage) -> MailAttachment:
    content = part.get_payload(decode=True)
    size = len(content) if isinstance(content, bytes) else 0
    name, content_type = stored_text(part.get_filename() or ""), stored_text(part.get_content_type())
    return MailAttachment(name=name, content_type=content_type, size=size)


def _paths(folder: Path, tenant: str | None) -> Iterator[Path]:
    try:
        tenants = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise _unreadable(folder, error) from error
    for slug in tenants:
        if slug.is_dir() and (tenant is None or slug.name == tenant):
            yield from slug.glob(f"*{ENDING}")


def _summary(path: Path, written_at: datetime) -> OutboxMail:
    try:
        content = path.read_bytes()
        message = message_from_bytes(content, policy=policy.default)
        return _described(path, written_at, message, len(content))
    except (OSError, *_MALFORMED) as error:
        return _mail(path, written_at, problem=_reason(path, error))


def _described(path: Path, written_at: datetime, message: EmailMessage, size: int) -> OutboxMail:
    sender, to, subject = (stored_text(str(message[name] or "")) for name in ("From", "To", "Subject"))
    return _mail(path, written_at, sender=sender, to=to, subject=subject, size=size)


def _mail(path: Path, written_at: datetime, **content: Any) -> OutboxMail:
    names = {"job_id": stored_text(path.stem), "tenant": stored_text(path.parent.name)}
    empty = {"sender": "", "to": "", "subject": "", "size": 0, "problem": None}
    return OutboxMail.model_validate({**empty, **names, "written_at": written_at, **content})


def _time(facts: os.stat_result) -> datetime:
    """When a file was written. Exact, so that it can be compared with a position."""
    return datetime.fromtimestamp(facts.st_mtime_ns // 1_000_000_000, UTC) + timedelta(
        microseconds=facts.st_mtime_ns % 1_000_000_000 // 1000
    )


def _unreadable(path: Path, error: Exception) -> MailUnreadable:
    return MailUnreadable(f"{path} cannot be read: {_reason(path, error)}.", remedy="Look at the file, or remove it.")


def _reason(path: Path, error: Exception) -> str:
    if not isinstance(error, OSError):
        return "it is not a mail"
    return "it is a link to nothing" if path.is_symlink() and not path.exists() else error.strerror or str(error)
