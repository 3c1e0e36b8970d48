"""Everything at once: all programs and capabilities, under disasters that a seed chooses."""

import pytest

from tests.faults.storm import run_storm
from tests.pgbouncer import without_pooler
from tests.support import PROOF

SEEDS, DISASTERS = (range(1, 11), 30) if PROOF else ((1,), 9)

pytestmark = without_pooler("it has its own")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_storm_breaks_no_law(tmp_path, seed):
    storm, broken = await run_storm(tmp_path, seed, DISASTERS)
    print(f"storm {seed}: {storm.jobs:,} jobs, {len(storm.happened)} disasters ({', '.join(storm.happened)})")
    assert broken == []
