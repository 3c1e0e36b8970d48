"""`atlas session`: the people who are signed in to the web pages."""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connection.client_lists import all_of, find_named, with_names
from atlas.cli.terminal.output import Json, format_age, say, table
from atlas.cli.terminal.parameters import TenantFilter
from atlas.models.tenants import OpenSession

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="The people who are signed in to the web pages.", no_args_is_help=True, add_completion=False)


@app.command("list")
def show_list(tenant: TenantFilter = None, json: Json = False) -> None:
    """List the open sessions, newest first."""
    sessions, names = with_names(lambda atlas: all_of(atlas.list_sessions()), tenant=tenant)
    rows = [
        (
            *(session.id, session.subject, session.role, names.slug(session.tenant_id), session.browser),
            *(session.address, format_age(session.last_seen_at), session.expires_at),
        )
        for session in sessions
    ]
    columns = ("ID", "SUBJECT", "ROLE", "TENANT", "BROWSER", "ADDRESS", "LAST SEEN", "EXPIRES")
    text = table(columns, rows) if rows else "No one is signed in."
    say({"sessions": [names.document(session) for session in sessions]}, text, json=json)


@app.command("end")
def end(
    session_id: Annotated[str, typer.Argument(metavar="ID", help="The session's id, or its beginning.")],
    json: Json = False,
) -> None:
    """End a session: its browser is signed out."""

    async def work(atlas: "AtlasClient") -> OpenSession:
        session = await find_named("session", session_id, atlas.list_sessions(), name=None)
        await atlas.end_session(session.id)
        return session

    session, names = with_names(work)
    say(names.document(session), f"Session {session.id} of {session.subject} ended.", json=json)
