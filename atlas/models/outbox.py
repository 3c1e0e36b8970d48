"""Mails that were written as files instead of being sent."""

from datetime import datetime

from pydantic import Field

from atlas.models.base import ApiModel


class OutboxMail(ApiModel):
    """A mail in the outbox, under the id of the job that made it."""

    job_id: str
    tenant: str
    written_at: datetime
    sender: str
    to: str
    subject: str
    size: int = Field(description="The size of the file, in bytes.")
    problem: str | None


class MailRoute(ApiModel):
    """How mails leave."""

    providers: list[str] = Field(description="Tried in this order: microsoft, resend, smtp, outbox, none.")
    is_local: bool = Field(description="Whether every mail becomes a file in the outbox, and none is sent.")


class MailHeader(ApiModel):
    """A header of a mail."""

    name: str
    value: str


class MailAttachment(ApiModel):
    """A file that goes with a mail."""

    name: str
    content_type: str
    size: int = Field(description="Its size, in bytes.")


class MailDetails(OutboxMail):
    """A mail with its headers and its plain text. `has_html`: its HTML is at `/html`."""

    headers: list[MailHeader]
    text: str | None
    has_html: bool
    attachments: list[MailAttachment]
