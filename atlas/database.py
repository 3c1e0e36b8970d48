"""Opens the database of an installation for programs in Python: the one that the settings name, or the embedded one."""

from typing import Any

from atlas.db.pool import Pool
from atlas.db.pool import open_pool as open_pool_at
from atlas.errors import SettingsError
from atlas.settings import load_settings


async def open_pool(url: str | None = None, *, size: int = 10, application: str = "atlas") -> Pool:
    """Open a pool on the database of Atlas. Close it at the end, or use it as `async with await open_pool() as pool`.

    Without a URL it is the database of DATABASE_URL, in the environment or `.env`, else the embedded server of
    ATLAS_HOME, which is `.atlas` in this folder unless it is set. That one runs for as long as a program uses it.
    """
    if url is not None:
        return await open_pool_at(url, size=size, application=application)
    settings = load_settings()
    if settings.database_url is not None:
        return await open_pool_at(settings.database_url, size=size, application=application)
    if settings.atlas_url is not None:
        raise SettingsError(
            "ATLAS_URL names an API, and a pool needs the database.",
            remedy="Set DATABASE_URL, or unset ATLAS_URL, or use `atlas.client.AtlasClient`.",
        )
    # Imported here: with DATABASE_URL nothing of it is needed.
    from atlas.postgres.database import use_embedded

    database = await use_embedded(settings.home)
    try:
        pool: Any = await open_pool_at(database.url, size=size, application=application)
    except BaseException:
        database.server.release()
        raise
    pool.on_close = database.server.release
    return pool
