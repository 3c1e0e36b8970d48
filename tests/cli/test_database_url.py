"""`atlas database-url` prints an address that leads to the database, or says why there is none."""

import pytest

from atlas.postgres.cluster import start_embedded


async def test_the_address_of_the_settings_is_printed(atlas, database_url):
    assert (await atlas("database-url")).stdout == f"{database_url}\n"
    assert (await atlas("database-url", "--json")).document == {"url": database_url}
    owner = "postgresql://owner@db/atlas"
    assert (await atlas("database-url", "--owner", ATLAS_OWNER_URL=owner)).stdout == f"{owner}\n"


@pytest.mark.long
async def test_the_address_of_an_embedded_server_is_printed_while_it_runs(atlas, tmp_path):
    missing = await atlas("database-url", DATABASE_URL=None)
    assert "There is no database in" in missing.refusal

    server = await start_embedded(tmp_path / "home")
    try:
        printed = await atlas("database-url", DATABASE_URL=None, ATLAS_HOME=str(tmp_path / "home"))
        assert printed.stdout == f"{server.url(login='atlas_app')}\n"
        for_owner = await atlas("database-url", "--owner", DATABASE_URL=None, ATLAS_HOME=str(tmp_path / "home"))
        assert for_owner.stdout == f"{server.url()}\n"
    finally:
        server.release()
