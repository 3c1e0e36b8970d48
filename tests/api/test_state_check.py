"""The comparison of the tables with the audit log around every API operation of the tests."""

from tests.state_check import CHANGE_AFTER_EVENT, STATE_CHECK


async def test_an_operation_that_writes_without_an_event_is_found_and_what_a_test_wrote_is_not(operator, owner, world):
    STATE_CHECK.compare_all()
    await owner.execute("update atlas.tenants set name = 'Eve' where id = $1", world.other.id)
    assert (await operator.post("/tenants", json={"slug": "good", "name": "Good"})).status_code == 201
    assert STATE_CHECK.take_unaudited() == []

    await owner.execute(CHANGE_AFTER_EVENT)
    made = (await operator.post("/tenants", json={"slug": "bad", "name": "Bad"})).json()

    [found] = STATE_CHECK.take_unaudited()
    expected = f"POST /api/v1/tenants: The tenant {made['id']} is not as its last event left it (TENANT_ADDED, row "
    assert found.startswith(expected)
