"""`atlas audit forward`."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from atlas.audit.changes import bare_url
from atlas.audit.forwarding.destinations import Credentials, Destination, open_destination
from atlas.audit.forwarding.forwarder import Progress, keep_forwarding
from atlas.audit.forwarding.places import ForwarderStatus, add_forwarder, list_forwarders, remove_forwarder
from atlas.audit.forwarding.shapes import SHAPES
from atlas.audit.verifier.format import counted
from atlas.cli.programs.long_running import run_program
from atlas.cli.runtime import Atlas, caller, connected, execute
from atlas.cli.terminal.output import Json, dump_json, say, table
from atlas.settings import Settings

CONNECTIONS = 2


def forward_log(
    destination: Annotated[
        str | None, typer.Argument(help="syslog+tls://HOST[:PORT], https://HOST/PATH, file:///PATH, or a path.")
    ] = None,
    shape: Annotated[str, typer.Option(help=f"The shape of a row: {', '.join(SHAPES)}.")] = "json",
    name: Annotated[
        str | None, typer.Option(help="The name under which its position is stored; by default the destination.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Run until stopped.")] = False,
    begin: Annotated[
        Literal["start", "now"], typer.Option("--from", help="Where a new forwarder begins: start or now.")
    ] = "start",
    ca: Annotated[Path | None, typer.Option(help="Authorities to trust, instead of the machine's.")] = None,
    cert: Annotated[Path | None, typer.Option(help="A client certificate.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with the bearer token of the collector.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Show all forwarders, and how far each is behind.")] = False,
    remove: Annotated[str | None, typer.Option(metavar="NAME", help="Forget a forwarder and its position.")] = None,
    json: Json = False,
) -> None:
    """Forward the sealed rows of the audit log to syslog, an HTTPS collector or a file, from where it stopped.

    With --follow and --json, one JSON document for each chunk that was sent.
    """
    if sum((destination is not None, status, remove is not None)) != 1:
        raise typer.BadParameter("give one of: a destination, --status, --remove NAME", param_hint="DESTINATION")
    if remove is not None:
        execute(lambda settings: _remove(settings, remove))
        say({"removed": remove}, f"The forwarder {remove} was removed.", json=json)
        return
    if status:
        forwarders = execute(_list)
        say({"forwarders": [_document(forwarder) for forwarder in forwarders]}, _table(forwarders), json=json)
        return
    assert destination is not None
    target = open_destination(destination, shape, Credentials(ca, cert, key, token_file))
    # The same file is the same forwarder, whatever folder it is named from.
    address = destination if "://" in destination else str(Path(destination).absolute())
    named = name or str(bare_url(address))

    running = _Forwarding(target, named, address, shape, from_now=begin == "now", follow=follow, json=json)
    sent, last = run_program(running.run, size=CONNECTIONS, tries_again=follow)
    if not follow:
        text = f"Forwarded {counted(sent, 'row')} to {last.destination}; {counted(last.lag_rows, 'sealed row')} left."
        say({"sent": sent, **_document(last)}, text, json=json)


@dataclass(frozen=True, slots=True)
class _Forwarding:
    """One run of the command."""

    target: Destination
    name: str
    address: str
    shape: str
    from_now: bool
    follow: bool
    json: bool

    async def run(self, atlas: Atlas, stop: asyncio.Event) -> tuple[int, ForwarderStatus]:
        """Forward until everything is sent, or until stopped. Returns how many rows, and where it is now."""
        about: Any = {"actor": caller(), "from_now": self.from_now}
        async with atlas.pool.acquire() as conn:
            last = await add_forwarder(conn, self.name, self.address, self.shape, **about)
        sent = 0
        try:
            async for progress in keep_forwarding(atlas.pool, self.name, self.target, stop=stop, follow=self.follow):
                sent, last = sent + progress.sent, progress.status
                if self.follow:
                    _print(progress, json=self.json)
        finally:
            await self.target.close()
        return sent, last


async def _remove(settings: Settings, name: str) -> None:
    async with connected(settings) as conn:
        await remove_forwarder(conn, name, actor=caller())


async def _list(settings: Settings) -> list[ForwarderStatus]:
    async with connected(settings) as conn:
        return await list_forwarders(conn)


def _print(progress: Progress, *, json: bool) -> None:
    status = progress.status
    if json:
        print(dump_json({"sent": progress.sent, "number": progress.number, **_document(status)}), flush=True)
    else:
        print(f"{counted(progress.sent, 'row')} up to number {progress.number}, {status.lag_rows:,} left", flush=True)


def _document(status: ForwarderStatus) -> dict[str, Any]:
    document = asdict(status)
    total = document.pop("sent")
    return {**document, "total_sent": total, "is_behind": status.is_behind}


def _table(forwarders: Sequence[ForwarderStatus]) -> Any:
    if not forwarders:
        return "There are no forwarders. `atlas audit forward DESTINATION` begins one."
    rows = [
        (
            forwarder.name,
            forwarder.destination,
            forwarder.shape,
            forwarder.sent,
            forwarder.place.seal,
            forwarder.lag_rows,
            f"{forwarder.lag_seconds:.0f} s",
        )
        for forwarder in forwarders
    ]
    return table(("NAME", "DESTINATION", "SHAPE", "SENT", "SEAL", "ROWS BEHIND", "SECONDS BEHIND"), rows)
