"""`atlas outbox`: the mails that were written as files instead of being sent."""

import sys
from collections.abc import Collection
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.bounds import MAX_PAGE_SIZE
from atlas.cli.access.tenant_names import names_of
from atlas.cli.connection.client_lists import row_of
from atlas.cli.connection.connect import either
from atlas.cli.runtime import connected
from atlas.cli.terminal.ids import id_range, is_beginning, only_one
from atlas.cli.terminal.output import Json, say, table
from atlas.db.pg_json import stored_text
from atlas.engine.outbox_files import attachments_of, body_of, list_mails, outbox_folder, read_mail
from atlas.errors import NotFound
from atlas.ids import as_id
from atlas.models.outbox import OutboxMail
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(
    help="The mails that were written as files instead of being sent.", no_args_is_help=True, add_completion=False
)

Tenant = Annotated[str | None, typer.Option(help="Only this tenant's mails, by slug or id.")]


@app.command("list")
def show_list(
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of mails.")] = 50,
    json: Json = False,
) -> None:
    """List the mails, newest first."""

    async def work(settings: Settings) -> tuple[list[OutboxMail], str]:
        folder = outbox_folder(settings.home)
        return list_mails(folder, tenant=await _slug(settings, tenant), limit=limit), f" in {folder}"

    async def over_http(atlas: "AtlasClient") -> tuple[list[OutboxMail], str]:
        mails: list[OutboxMail] = []
        async for page in atlas.list_mails().pages(limit=min(limit, MAX_PAGE_SIZE)):
            mails += page.items
            if len(mails) >= limit:
                break
        return mails[:limit], ""

    mails, where = either(work, over_http, tenant=tenant)
    rows = [(mail.written_at, mail.tenant, mail.to, _subject(mail), mail.job_id) for mail in mails]
    text = table(("WRITTEN", "TENANT", "TO", "SUBJECT", "JOB"), rows) if rows else f"There are no mails{where}."
    say({"mails": mails}, text, json=json)


@app.command("show")
def show_one(
    job: Annotated[str, typer.Argument(help="The id of the job that made the mail, or its beginning.")],
    raw: Annotated[bool, typer.Option("--raw", help="Print the file unchanged.")] = False,
    json: Json = False,
) -> None:
    """Show one mail."""

    async def work(settings: Settings) -> tuple[OutboxMail, EmailMessage, bytes]:
        folder = outbox_folder(settings.home)
        ids = {id for path in folder.glob("*/*.eml") if (id := as_id(path.stem)) is not None}
        return read_mail(folder, _id(job, ids))

    async def over_http(atlas: "AtlasClient") -> tuple[OutboxMail, EmailMessage, bytes]:
        id = as_id(job) or _id(job, {UUID(mail.job_id) async for mail in atlas.list_mails()})
        content = b"".join([piece async for piece in atlas.download_mail(id)])
        return row_of(OutboxMail, await atlas.get_mail(id)), message_from_bytes(content, policy=policy.default), content

    mail, message, content = either(work, over_http)
    if raw and not json and not sys.stdout.isatty():
        typer.echo(content, nl=False)
        return
    body, files = body_of(message) or "", [attachment.name for attachment in attachments_of(message)]
    headers = {stored_text(name): stored_text(str(value)) for name, value in message.items()}
    # Atlas writes only ASCII, but other programs may write there too.
    text = content.decode("utf-8", "replace")
    document = {**dict(mail), "headers": headers, "body": body, "attachments": files, "raw": text}
    say(document, text if raw else _text(mail, headers, body, files), json=json)


def _subject(mail: OutboxMail) -> str:
    return mail.subject if mail.problem is None else f"(cannot be read: {mail.problem})"


def _text(mail: OutboxMail, headers: dict[str, str], body: str, files: list[str]) -> str:
    lines = [
        f"{name}: {headers[name]}"
        for name in ("From", "To", "Cc", "Bcc", "Reply-To", "Subject", "Date")
        if name in headers
    ]
    lines += [f"Attachment: {name}" for name in files]
    return "\n".join([f"Tenant: {mail.tenant}", *lines, "", body.replace("\r\n", "\n").rstrip()])


async def _slug(settings: Settings, tenant: str | None) -> str | None:
    """The slug of a tenant, which the folder of its mails has. Only an id is looked up in the database."""
    id = None if tenant is None else as_id(tenant)
    if id is None:
        return tenant
    async with connected(settings) as conn:
        return (await names_of(conn, [{"tenant_id": id}])).slug(id)


def _id(text: str, ids: Collection[UUID]) -> UUID:
    """The id of a mail's job: whole, or the beginning of one of these."""
    whole = as_id(text)
    if whole is not None:
        return whole
    if not is_beginning(text):
        raise NotFound("mail of job", text, remedy="`atlas outbox list` shows the mails.")
    low, high = id_range("JOB", text)
    return only_one("job", text, sorted(id for id in ids if low <= id <= high))
