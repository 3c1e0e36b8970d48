"""The fixtures: `atlas_databases` for the session, `atlas_kit` for each test. Needs pytest-asyncio.

`--atlas-sim=N` says in how many schedules a test under `@simulate` runs.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias

import pytest
import pytest_asyncio

from atlas.errors import AtlasError
from atlas.test_databases import TestDatabases
from atlas.testing.kit import AtlasKit
from atlas.testing.simulation import explore

# Makes the tables of an application at this address.
MakeTables: TypeAlias = Callable[[str], Awaitable[None] | None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--atlas-sim`."""
    parser.getgroup("atlas").addoption(
        "--atlas-sim", type=_positive, metavar="N", help="in how many schedules tests under @simulate run"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let `--atlas-sim` count for all simulations."""
    explore.chosen_schedules = config.getoption("--atlas-sim")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(f"{text} is not a number of schedules")
    return number


@pytest.fixture(scope="session")
def atlas_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestDatabases]:
    """A server for the session: the one DATABASE_URL names, or an embedded one.

    Where it cannot be used, every test that asks for it fails with the cause and the remedy alone.
    """
    server = TestDatabases(tmp_path_factory.mktemp("atlas"), os.environ.get("DATABASE_URL"))
    try:
        asyncio.run(server.start())
    except AtlasError as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def atlas_tables() -> MakeTables | None:
    """Override it in your conftest.py: return a function that makes your own tables at an address.

    It is called once; the database of each test is a copy. It may be async.
    """
    return None


@pytest.fixture(scope="session")
def atlas_template(atlas_databases: TestDatabases, atlas_tables: MakeTables | None) -> str | None:
    """The database with the application's tables, which those of tests are copied from; None without such tables."""

    async def fill(url: str) -> None:
        assert atlas_tables is not None
        # A plain function may run an event loop of its own, as Alembic does.
        result = await asyncio.to_thread(atlas_tables, url)
        if result is not None:
            await result

    return None if atlas_tables is None else asyncio.run(atlas_databases.add_template(fill))


@pytest_asyncio.fixture
async def atlas_kit(atlas_databases: TestDatabases, atlas_template: str | None) -> AsyncIterator[AtlasKit]:
    """Atlas, online, on a new database for the test."""
    database = atlas_databases.database() if atlas_template is None else atlas_databases.copy(atlas_template)
    async with database as url, AtlasKit.open(url) as kit:
        yield kit
