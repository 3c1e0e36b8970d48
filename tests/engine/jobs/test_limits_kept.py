"""The laws of limits and rates once more, while what they count is kept: as if reading the indexes always took long."""

import pytest

from tests.engine.jobs import test_limits_by_key, test_rates
from tests.support import ROOT

pytestmark = pytest.mark.long
FUNCTIONS = ROOT / "engine" / "jobs" / "functions" / "limits"
for module in (test_limits_by_key, test_rates):
    globals().update({name: law for name, law in vars(module).items() if name.startswith("test_")})


@pytest.fixture(autouse=True)
async def kept(owner):
    slow = (FUNCTIONS / "slow_entries.sql").read_text().replace("return 1000;", "return -1000000;")
    release = (FUNCTIONS / "release_held.sql").read_text().replace("p_since > '-infinity');", "true);")
    assert "-1000000" in slow
    assert "p_types, true)" in release
    await owner.execute("set search_path = atlas")
    await owner.execute(slow)
    await owner.execute(release)
