"""Atlas as a browser meets it: an API on loopback, a worker and a scheduler on a real Postgres."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from atlas.db.pool import Pool, open_pool
from atlas.settings import Settings
from atlas.test_databases import TestDatabases
from tests.api.conftest import QUICK, World, furnish
from tests.api.serving import Served
from tests.cli.conftest import environment
from tests.support import ROOT, until

T = TypeVar("T")
PROGRAMS = (("worker", "--all", "--poll-ms", "200"), ("scheduler",))


class Site:
    """An installation with two tenants and a token for every role: `site.world.tokens["acme", "tenant_admin"]`."""

    world: World
    pool: Pool

    def __init__(
        self,
        databases: TestDatabases,
        home: Path,
        *,
        app: str = "tests.web.handlers",
        job_type: str = "report.build",
    ) -> None:
        """`app` is what its worker runs; it has started once this type of it is published."""
        self._app = app
        self._job_type = job_type
        self._databases = databases
        self._home = home
        self._stack = AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._programs: list[subprocess.Popen[bytes]] = []
        self._served: Served

    @property
    def address(self) -> str:
        return self._served.address

    @property
    def url(self) -> str:
        """The address of its database, with all the rights of the login."""
        return self._url

    @property
    def home(self) -> Path:
        """Its folder, where the outbox is."""
        return self._home

    def start(self) -> None:
        self._thread.start()
        self._url = self.run(self._stack.enter_async_context(self._databases.database()))
        self._settings = Settings(atlas_home=self._home, database_url=self._url)
        self._served = self._serve()
        self.pool = self.run(open_pool(self._url, size=4))
        self.world = self.run(furnish(self.pool, self._served.app))
        environ = environment(
            self._home, DATABASE_URL=self._url, ATLAS_LOG_LEVEL="error", OUTBOUND_EMAIL_PROVIDER="outbox"
        )
        for program in PROGRAMS:
            argv = [sys.executable, "-m", "atlas.cli.main", *program, "--app", self._app]
            self._programs.append(subprocess.Popen(argv, cwd=ROOT, env=environ))
        published = "select exists (select from atlas.job_types where key = $1)"
        self.run(until(lambda: self.pool.fetchval(published, self._job_type)))

    def stop(self) -> None:
        for program in self._programs:
            program.terminate()
        for program in self._programs:
            program.wait(30)
        self._served.stop()
        self.run(self.pool.close())
        self.run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the loop of this site: the browser's own functions do not wait for coroutines."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(240)

    def stop_api(self) -> None:
        """Stop the API alone, as an upgrade does."""
        self._served.stop()

    def start_api(self) -> None:
        """Start it again, at the same address."""
        self._served = self._serve(int(self.address.rpartition(":")[2]))

    def _serve(self, port: int = 0) -> Served:
        served = Served(self._url, self._settings, QUICK, port=port)
        served.start()
        return served
