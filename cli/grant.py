"""`atlas grant`: what logins of other applications may do in Atlas's schema."""

from typing import Annotated

import typer

from atlas.cli.output import Json, say
from atlas.cli.runtime import caller, execute, open_atlas
from atlas.db.pool import connect
from atlas.engine.grants import grant_enqueue
from atlas.settings import Settings

app = typer.Typer(help="What logins of other applications may do.", no_args_is_help=True, add_completion=False)


@app.callback()
def main() -> None:
    """What logins of other applications may do."""


@app.command("enqueue")
def enqueue(
    login: Annotated[str, typer.Argument(help="The login of the application, as Postgres knows it.")],
    json: Json = False,
) -> None:
    """Let a login enqueue jobs in its own transactions. It gets no right to any table of Atlas."""

    async def work(settings: Settings) -> None:
        async with open_atlas(settings, size=1) as atlas:
            conn = await connect(atlas.owner_url, application="atlas grant")
            try:
                await grant_enqueue(conn, login, actor=caller())
            finally:
                await conn.close()

    execute(work)
    say({"login": login, "granted": "enqueue"}, f"The login {login} may call atlas.enqueue.", json=json)
