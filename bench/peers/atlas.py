"""What Atlas's queue and its workflows have in common as peers: the process is set up as that of `atlas worker`."""

from importlib.metadata import version

from atlas.cli.programs.long_running import relax_garbage_collection
from atlas.logs import configure_logs
from bench.jobs.ground import prepare

UNFINISHED = "select count(*) from atlas.jobs where status <> 'succeeded'"
CONNECTIONS = 12


class AtlasPeer:
    """Atlas, on a database that is migrated for the measurement."""

    name = "atlas"

    def __init__(self, batch: int | None) -> None:
        self.batch = batch or 1000
        configure_logs("error")
        relax_garbage_collection()

    @property
    def version(self) -> str:
        return version("atlas-jobs")

    async def prepare(self, database_url: str) -> None:
        await prepare(database_url)
