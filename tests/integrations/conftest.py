"""An application beside Atlas: with a login of its own, its own table, and the right to enqueue."""

import re
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import pytest

from atlas.engine.access.grants import grant_enqueue
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.tenants.tenants import find_tenant
from tests.support import DANA, ROOT, given_tenant

PAGE = (ROOT / "docs" / "integrations.md").read_text()


def blocks(language: str) -> list[str]:
    """The examples of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@dataclass
class Shop:
    """The application: its address with its own login, and who looks at the database afterwards."""

    url: str
    login: str
    owner: Any
    acme: UUID

    async def jobs(self) -> list[Any]:
        """Every job with its event."""
        return await self.owner.fetch(
            """select j.*, a.actor_id, a.meta from atlas.jobs j
            left join atlas.audit_log a on a.entity_id = j.id::text and a.action = 'JOB_CREATED' order by j.created_at"""
        )

    async def state(self) -> str:
        """What the application's own transaction did."""
        return await self.owner.fetchval("select state from invoices where id = 7")


@pytest.fixture
def shop_jobs() -> Iterator[ModuleType]:
    """The module `shop.jobs`, as the page has it."""
    module = ModuleType("shop.jobs")
    sys.modules["shop"], sys.modules["shop.jobs"] = ModuleType("shop"), module
    exec(compile(blocks("python")[0], "shop/jobs.py", "exec", dont_inherit=True), module.__dict__)
    yield module
    del sys.modules["shop"], sys.modules["shop.jobs"], registered()["invoice.send"]


@pytest.fixture
async def shop(owner: Any, database_url: str, shop_jobs: ModuleType) -> AsyncIterator[Shop]:
    login = f"shop_{uuid4().hex[:12]}"
    await owner.execute(f"create role {login} login password 'secret'")
    try:
        await owner.execute(
            f"""create table invoices (id int primary key, state text not null);
            insert into invoices values (7, 'new'); alter table invoices owner to {login}"""
        )
        acme = await given_tenant(owner, "acme")
        tenants = [await find_tenant(owner, acme)]
        await grant_enqueue(owner, login, tenants=tenants, job_types=["invoice.*", "billing.archive"], actor=DANA)
        await publish_types(owner, [registered()["invoice.send"]])
        url = re.sub("//[^@]*@", f"//{login}:secret@", database_url)
        yield Shop(url, login, owner, acme)
    finally:
        await owner.execute(f"drop owned by {login}; drop role {login}")
