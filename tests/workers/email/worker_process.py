"""A worker that serves mails as a process of its own, for tests that kill it: `python -m … URL SETTINGS_JSON`."""

import asyncio
import sys

import orjson

from atlas.db.pool import open_pool
from atlas.settings import Settings, load_settings
from atlas.workers.email import register_email
from atlas.workers.worker import Worker, WorkerOptions


async def main(url: str, settings: Settings) -> None:
    register_email(settings)
    pool = await open_pool(url)
    await Worker(pool, url, WorkerOptions(job_types=["EMAIL_SEND"], poll=0.05, lease=60)).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], load_settings(**orjson.loads(sys.argv[2]))))
