"""`open_pool` without an address: the database of the settings, else the embedded server, for as long as it is open."""

import pytest

from atlas import open_pool
from atlas.errors import DatabaseError, SettingsError
from atlas.postgres.cluster import start_embedded
from atlas.postgres.pg_ctl import running_at
from tests.support import until


async def test_a_pool_without_an_address_uses_the_database_of_the_settings(database_url, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database_url)
    pool = await open_pool(size=2, application="shop")

    assert await pool.fetchval("select application_name from pg_stat_activity where pid = pg_backend_pid()") == "shop"
    assert await pool.fetchval("select count(*) from atlas.jobs") == 0
    await pool.close()


@pytest.mark.long
async def test_a_pool_without_an_address_uses_the_embedded_server_until_it_is_closed(tmp_path, monkeypatch):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("ATLAS_HOME", str(tmp_path))
    (await start_embedded(tmp_path)).release()
    pool = await open_pool()

    assert await pool.fetchval("select current_user || '@' || current_database()") == "atlas_app@atlas"
    await pool.close()
    await until(lambda: running_at(tmp_path / "postgres" / "data") is None)


async def test_without_a_database_it_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("ATLAS_HOME", str(tmp_path / "none"))
    with pytest.raises(DatabaseError, match=r"There is no database in .*none.*atlas up"):
        await open_pool()

    monkeypatch.setenv("ATLAS_URL", "https://atlas.example.com")
    with pytest.raises(SettingsError, match="ATLAS_URL names an API"):
        await open_pool()
