"""Commands that only read use a standby, once it shows what the primary shows."""

import pytest

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.settings import load_settings
from tests.cli.test_doctor import by_name
from tests.standby import standby_of


@pytest.fixture(scope="module")
def standby(databases):
    with standby_of(databases) as found:
        yield found


@pytest.fixture
def where(standby, database_url):
    return {"ATLAS_READ_DATABASE_URL": standby.url(database_url), "ATLAS_READ_STALENESS_SECONDS": "300"}


@pytest.mark.long
async def test_lists_exports_and_verifications_read_there_what_was_just_written(
    atlas, where, standby, pool, database_url, tmp_path
):
    await seal_and_sign(pool, load_settings(atlas_home=tmp_path / "home", database_url=database_url))
    made = (await atlas("enqueue", "a.work", "--json", **where)).document["id"]
    assert "from atlas.jobs" not in standby.log

    listed = await atlas("jobs", "list", "--json", **where)
    assert [job["id"] for job in listed.document["jobs"]] == [made]
    assert "atlas.jobs" in standby.log

    for command, read in (("insights", "sum_job_series"), ("usage", "usage_hourly")):
        assert read not in standby.log
        assert (await atlas(command, **where)).code == 0
        assert read in standby.log

    assert "audit_seal" not in standby.log
    exported = await atlas("audit", "export", "--out", str(tmp_path / "log"), **where)
    assert exported.code == 0, exported
    assert "AUDIT_EXPORTED" in (tmp_path / "log").read_text()
    assert "audit_seal" in standby.log

    assert "private" not in standby.log
    verified = await atlas("audit", "verify", "--state", **where)
    assert verified.code == 0, verified
    assert "private" in standby.log
    assert "ERROR:" not in standby.log


@pytest.mark.long
async def test_without_the_replica_the_primary_is_read(atlas, where):
    made = (await atlas("enqueue", "a.work", "--json", **where)).document["id"]
    nowhere = "postgresql://postgres@127.0.0.1:1/atlas"
    listed = await atlas("jobs", "list", "--json", ATLAS_READ_DATABASE_URL=nowhere)

    assert [job["id"] for job in listed.document["jobs"]] == [made]
    assert "the primary is" in listed.stderr


@pytest.mark.long
async def test_the_doctor_says_whether_it_is_used(atlas, where, database_url):
    async def check(**settings):
        return by_name((await atlas("doctor", "--json", **settings)).document)["replica"]

    good, primary, away = (
        await check(**where),
        await check(ATLAS_READ_DATABASE_URL=database_url),
        await check(ATLAS_READ_DATABASE_URL="postgresql://postgres@127.0.0.1:1/atlas"),
    )
    assert (good["verdict"], good["found"][:10]) == ("ok", "a standby,")
    assert (primary["verdict"], primary["found"]) == ("warn", "it is not read from: it is not a standby")
    assert away["verdict"] == "warn"
    assert "cannot be reached" in away["found"]
    assert "ATLAS_READ_DATABASE_URL" in away["remedy"]
