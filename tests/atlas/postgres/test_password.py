"""Local users of an embedded server are asked for a password, also in homes that earlier versions made."""

import asyncpg
import pytest

from atlas.db.pool import connect
from atlas.errors import EmbeddedPostgresError
from atlas.postgres.cluster import start_embedded
from atlas.postgres.database import use_embedded
from atlas.postgres.password import FILE


async def login(url: str) -> str:
    conn = await connect(url)
    try:
        return await conn.fetchval("select session_user")
    finally:
        await conn.close()


@pytest.mark.long
async def test_a_home_of_an_earlier_version_asks_for_a_password_from_its_next_use_on(tmp_path):
    home = tmp_path / "home"
    earlier = await start_embedded(home)
    open_url = earlier.url("postgres")
    assert await login(open_url) == "postgres"
    try:
        database = await use_embedded(home)
        again = await use_embedded(home)
        try:
            assert (again.url, again.owner_url) == (database.url, database.owner_url)
            assert [await login(url) for url in (database.url, database.owner_url)] == ["atlas_app", "postgres"]
            assert (home / FILE).stat().st_mode & 0o777 == 0o600
            # Neither without a password, nor with that of the other login.
            app_password = database.url.split(":")[2].split("@")[0]
            for url in (open_url, open_url.replace("postgres@", f"postgres:{app_password}@")):
                with pytest.raises(asyncpg.InvalidPasswordError):
                    await asyncpg.connect(url)
            (home / FILE).rename(home / "lost")
            with pytest.raises(EmbeddedPostgresError, match="its file .* is gone"):
                await use_embedded(home)
            rules = home / "postgres" / "data" / "pg_hba.conf"
            rules.write_text(rules.read_text().replace("scram-sha-256", "trust"))
            conn = await connect(database.owner_url)
            await conn.execute("select pg_reload_conf()")
            await conn.close()
            new = await use_embedded(home)
            assert new.url != database.url
            assert [await login(url) for url in (new.url, new.owner_url)] == ["atlas_app", "postgres"]
            new.server.release()
        finally:
            database.server.release()
            again.server.release()
    finally:
        earlier.release()
