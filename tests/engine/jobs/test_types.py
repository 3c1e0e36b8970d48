"""What a decorator may say."""

import pytest

from atlas.errors import InvalidInput
from engine.jobs.types import job, registered


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"success_action": "shipped"}, "success_action"),
        ({"success_action": ""}, "success_action"),
    ],
)
def test_a_decorator_that_says_something_wrong_is_refused_by_the_field(said, field):
    with pytest.raises(InvalidInput) as refused:

        @job("types.wrong", **said)
        async def wrong(input): ...

    assert [error.field for error in refused.value.errors] == [field]
    assert "types.wrong" not in registered()
