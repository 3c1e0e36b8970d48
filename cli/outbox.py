"""`atlas outbox`: the mails that were written as files instead of being sent."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from atlas.cli.ids import id_range, is_beginning, only_one
from atlas.cli.needs_database import require_database
from atlas.cli.output import Json, say, table
from atlas.cli.runtime import connected, execute
from atlas.cli.tenant_names import names_of
from atlas.db.pg_json import stored_text
from atlas.engine.outbox_files import OutboxMail, attachments_of, body_of, list_mails, outbox_folder, read_mail
from atlas.errors import NotFound
from atlas.ids import as_id
from atlas.settings import Settings, load_settings

app = typer.Typer(
    help="The mails that were written as files instead of being sent.", no_args_is_help=True, add_completion=False
)

Tenant = Annotated[str | None, typer.Option(help="Only this tenant's mails, by slug or id.")]


@app.command("list")
def show_list(
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The most mails to list.")] = 50,
    json: Json = False,
) -> None:
    """List the mails, newest first."""
    folder = _folder()
    mails = list_mails(folder, tenant=_slug(tenant), limit=limit)
    rows = [(mail.written_at, mail.tenant, mail.to, _subject(mail), mail.job_id) for mail in mails]
    shown = table(("WRITTEN", "TENANT", "TO", "SUBJECT", "JOB"), rows) if rows else f"There are no mails in {folder}."
    say({"mails": mails}, shown, json=json)


@app.command("show")
def show_one(
    job: Annotated[str, typer.Argument(help="The id of the job that made the mail, or its beginning.")],
    raw: Annotated[bool, typer.Option("--raw", help="Print the file unchanged.")] = False,
    json: Json = False,
) -> None:
    """Show one mail."""
    folder = _folder()
    mail, message, content = read_mail(folder, _id(folder, job))
    if raw and not json and not sys.stdout.isatty():
        typer.echo(content, nl=False)
        return
    body, files = body_of(message) or "", [one.name for one in attachments_of(message)]
    headers = {stored_text(name): stored_text(str(value)) for name, value in message.items()}
    # Atlas writes only ASCII, but other programs may write there too.
    text = content.decode("utf-8", "replace")
    document = {**asdict(mail), "headers": headers, "body": body, "attachments": files, "raw": text}
    say(document, text if raw else _text(mail, headers, body, files), json=json)


def _folder() -> Path:
    settings = load_settings()
    require_database(settings)
    return outbox_folder(settings.home)


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


def _slug(tenant: str | None) -> str | None:
    """The slug of a tenant, which the folder of its mails has. Only an id is looked up in the database."""
    id = None if tenant is None else as_id(tenant)
    if id is None:
        return tenant

    async def work(settings: Settings) -> str | None:
        async with connected(settings, checks_inputs=False) as conn:
            return (await names_of(conn, [{"tenant_id": id}])).slug(id)

    return execute(work)


def _id(folder: Path, text: str) -> UUID:
    whole = as_id(text)
    if whole is not None:
        return whole
    if not is_beginning(text):
        raise NotFound("mail of job", text, remedy="`atlas outbox list` shows the mails.")
    low, high = id_range("JOB", text)
    ids = {id for path in folder.glob("*/*.eml") if (id := as_id(path.stem)) is not None}
    return only_one("job", text, sorted(id for id in ids if low <= id <= high))
