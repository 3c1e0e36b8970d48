"""The comparison of the tables with the audit log around every command of the tests."""

from tests.state_check import CHANGE_AFTER_EVENT, STATE_CHECK


async def test_a_command_that_writes_without_an_event_is_found(atlas, owner):
    STATE_CHECK.compare_all()
    assert (await atlas("tenant", "add", "good")).code == 0
    assert STATE_CHECK.take_unaudited() == []

    await owner.execute(CHANGE_AFTER_EVENT)
    assert (await atlas("tenant", "add", "bad")).code == 0

    [found] = STATE_CHECK.take_unaudited()
    assert found.startswith("atlas tenant add bad: The tenant ")
    assert "is not as its last event left it (TENANT_ADDED, row " in found
