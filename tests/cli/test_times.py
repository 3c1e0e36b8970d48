"""Options that take a time: durations and instants, everywhere alike."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import TypeAdapter

from atlas.api.models.common import Timestamp
from atlas.cli.terminal.parameters import read_time
from atlas.errors import InvalidInput
from tests.support import some


@pytest.mark.parametrize(("ahead", "sign"), [(False, -1), (True, 1)])
def test_a_duration_is_a_time_ago_or_from_now(ahead, sign):
    before = datetime.now(UTC)
    time = read_time("--since", "1h30m", ahead=ahead)

    assert before <= time - sign * timedelta(hours=1, minutes=30) <= datetime.now(UTC)


def test_an_instant_without_a_zone_is_in_utc():
    assert read_time("--since", "2027-03-01T06:00+02:00") == datetime(2027, 3, 1, 4, tzinfo=UTC)
    assert read_time("--since", "2027-03-01") == datetime(2027, 3, 1, tzinfo=UTC)
    spellings = ("T06:00Z", "T06:00:00Z", "t06:00:00z", "T06:00:00.000000000Z", " 06:00:00 UTC", " 06:00:00Z")
    for spelling in spellings:
        assert read_time("--until", f"2027-03-01{spelling}") == datetime(2027, 3, 1, 6, tzinfo=UTC)
        if spelling != " 06:00:00 UTC":
            assert TypeAdapter(Timestamp).validate_python(f"2027-03-01{spelling}") == datetime(
                2027, 3, 1, 6, tzinfo=UTC
            )
    with pytest.raises(InvalidInput, match="'soon' is not a time such as 5m"):
        read_time("--since", "soon")


@pytest.mark.parametrize(
    "command",
    some([("audit", "tail", "--since"), ("usage", "--since"), ("usage", "--from"), ("insights", "--since")], every=2),
)
async def test_every_command_that_takes_a_time_takes_both(atlas, command):
    await atlas("tenant", "add", "acme")
    recent = f"{datetime.now(UTC) - timedelta(days=40):%Y-%m-%d}"
    for time in ("5m", recent, f"{recent}T06:00:00Z"):
        assert (await atlas(*command, time)).code == 0
    assert "--since: 'soon' is not a time such as 5m" in (await atlas(*command, "soon")).refusal
    if command[0] == "audit":
        events = (await atlas(*command, "5m", "--json")).document["events"]
        assert "TENANT_ADDED" in [event["action"] for event in events]


async def test_a_time_in_the_past_to_run_at_is_said(atlas):
    past = await atlas("enqueue", "a.work", "--run-at", "2020-01-01T06:00Z", "--json")
    ahead = await atlas("enqueue", "a.work", "--run-at", "10m", "--json")

    assert past.document["id"]
    assert (
        past.stderr == "warning: --run-at 2020-01-01 06:00:00 UTC is in the past, so the job may start immediately.\n"
    )
    shown = (await atlas("jobs", "show", ahead.document["id"], "--json")).document["job"]
    assert (ahead.stderr, shown["shown_status"]) == ("", "waiting")
