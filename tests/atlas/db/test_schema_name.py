"""Another schema than `atlas`: every name of a statement follows, and two installations share a database."""

import asyncio
import json
import os
import re
import sys

import pytest

from atlas.db import schema
from tests.support import ROOT


@pytest.fixture
def other_schema(monkeypatch):
    monkeypatch.setattr(schema, "schema_name", lambda: "shop_jobs")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("select * from atlas.jobs j", "select * from shop_jobs.jobs j"),
        ("x::atlas.job_status", "x::shop_jobs.job_status"),
        ("set role atlas_tenant", "set role shop_jobs_tenant"),
        ("where rolname = 'atlas_engine'", "where rolname = 'shop_jobs_engine'"),
        ("pg_notify('atlas_jobs', '')", "pg_notify('shop_jobs_jobs', '')"),
        ("'atlas.jobs'::regclass", "'shop_jobs.jobs'::regclass"),
        ("key = 'atlas_online'", "key = 'atlas_online'"),
        ("current_setting('atlas.tenant', true)", "current_setting('atlas.tenant', true)"),
        ("-- atlas.jobs in a comment", "-- atlas.jobs in a comment"),
        ("message = 'see atlas.jobs'", "message = 'see atlas.jobs'"),
    ],
)
def test_the_names_of_a_statement_follow_the_schema(other_schema, written, meant):
    assert schema.in_schema(written) == meant


@pytest.mark.long
def test_every_notification_goes_to_a_channel_of_the_schema():
    named = [
        (path.name, match["text"])
        for path in ROOT.glob("*/**/*.sql")
        if ".venv" not in path.parts and "node_modules" not in path.parts
        for match in re.finditer(r"pg_notify\((?P<text>[^,]+),", path.read_text())
    ]
    channels = {f"'atlas_{name}'" for name in schema.CHANNELS}
    channels |= {f"current_schema() || '_{name}'" for name in schema.CHANNELS}
    assert len(named) > 10
    assert [one for one in named if one[1] not in channels] == []


async def atlas(*arguments: str, url: str, home: str, **environment: str) -> str:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", *arguments, "--json"),
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATABASE_URL": url, "ATLAS_HOME": home, **environment},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await child.communicate()
    assert child.returncode == 0, output.decode()
    return output.decode()


@pytest.mark.slow
async def test_two_installations_share_a_database_and_a_hostile_search_path(databases, tmp_path):
    """Jobs of one are not seen by the other, and nothing goes by the search path of the login."""
    async with databases.database(migrated=False) as url:
        hostile = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dpg_catalog"
        ours = {"url": hostile, "home": str(tmp_path / "ours")}
        theirs = {"url": hostile, "home": str(tmp_path / "theirs"), "ATLAS_SCHEMA": "shop_jobs"}
        for installation in (ours, theirs):
            await atlas("migrate", **installation)
            await atlas("online", **installation)
        await atlas("tenant", "add", "acme", **theirs)
        await atlas("enqueue", "report.build", "--allow-unknown", "--tenant", "acme", "--input", "{}", **theirs)

        assert '"status": "queued"' in await atlas("status", **theirs)
        assert '"status": "queued"' not in await atlas("status", **ours)
        slugs = [
            [tenant["slug"] for tenant in json.loads(await atlas("tenant", "list", **each))["tenants"]]
            for each in (ours, theirs)
        ]
        assert slugs == [["system"], ["acme", "system"]]
        assert json.loads(await atlas("migrate", **theirs))["applied"] == []
