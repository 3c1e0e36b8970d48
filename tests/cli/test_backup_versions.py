"""Backups with the logins of docs/install.md, restored into servers of newer versions; the page itself restores into its own."""

from itertools import combinations

import asyncpg
import pytest

from tests.postgres_versions import VERSIONS, needs_postgres, running_postgres

ADMINISTRATOR = (
    "create role atlas_install login createrole",
    "create database shop owner atlas_install",
)
PROGRAMS = (
    "create role atlas_app login",
    "grant atlas_engine, atlas_tenant to atlas_app",
    "alter role atlas_install nocreaterole",
)


async def run_all(url: str, statements: tuple[str, ...]) -> None:
    conn = await asyncpg.connect(url)
    for text in statements:
        await conn.execute(text)
    await conn.close()


def settings(url: str, home: str) -> dict[str, str]:
    """The settings of step 4 of the page."""
    server = url.partition("@")[2].partition("/")[0]
    owner, programs = (f"postgresql://{login}@{server}/shop" for login in ("atlas_install", "atlas_app"))
    return {"ATLAS_OWNER_URL": owner, "DATABASE_URL": programs, "ATLAS_HOME": home}


@pytest.mark.long
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        pytest.param(*pair, marks=needs_postgres(*pair), id="-".join(map(str, pair)))
        for pair in combinations(VERSIONS, 2)
    ],
)
async def test_a_backup_is_restored_into_a_newer_server(atlas, tmp_path, older, newer):
    with running_postgres(older, tmp_path / "older") as url:
        await run_all(url, ADMINISTRATOR)
        before = settings(url, str(tmp_path / "before"))
        assert (await atlas("migrate", **before)).code == 0
        await run_all(url, PROGRAMS)
        assert (await atlas("tenant", "add", "acme", **before)).code == 0
        backup = await atlas("backup", str(tmp_path / "backup"), **before)
        assert backup.code == 0, backup
    with running_postgres(newer, tmp_path / "newer") as url:
        await run_all(url, ADMINISTRATOR)
        after = settings(url, str(tmp_path / "after"))
        restored = await atlas("restore", str(tmp_path / "backup"), **after)
        assert restored.code == 0, restored
        await run_all(url, PROGRAMS)
        doctor = await atlas("doctor", **after)
        assert doctor.code == 0, doctor
        # No scheduler runs here to seal, so rows are old by now where the machine is busy.
        verified = await atlas("audit", "verify", "--state", "--json", **after)
        assert {finding["kind"] for finding in verified.document["findings"]} <= {"unsealed"}, verified
        assert "acme" in (await atlas("tenant", "list", **after)).stdout
