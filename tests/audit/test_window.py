"""Where a row belongs and when it can have been written, from the numbers in the seals alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from atlas.audit.sealing.seal import widened
from atlas.audit.verifier.format import Seal, Snapshot, text_of_time, time_of_text
from atlas.audit.verifier.window import RowWindow, broken_links

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def seal(n: int, prev: str, cur: str, seconds: float, **more: object) -> Seal:
    at = text(seconds)
    facts = {"closes": True, "rest": False, "to_xid": 0, "to_id": 0, "max_id": 100, "first_index": n - 1, "count": 1}
    facts |= {"size": n, "leaf_hashes": bytes(32), "epoch": 1, "epoch_at": text(-30), **more}
    made = Seal(n=n, system_identifier=7, snap_prev=prev, snap_cur=cur, snap_at=at, sealed_at=at, **facts)
    return replace(made, header=made.written_header())


def text(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def at(seconds: float) -> int:
    return time_of_text(text(seconds))


def places(*seals: Seal) -> list[RowWindow]:
    found: list[RowWindow] = []
    for one in seals:
        found.append(RowWindow.of(one, found[-1] if found else None))
    return found


def test_a_snapshot_shows_what_had_ended():
    snapshot = Snapshot("10:15:11,13")
    assert [xid for xid in range(8, 18) if snapshot.shows(xid)] == [8, 9, 10, 12, 14]


def test_a_window_holds_what_its_end_shows_and_its_start_does_not():
    _, second = places(seal(1, "1:1:", "10:15:11,13", 0), seal(2, "10:15:11,13", "13:20:13,18", 1))
    assert [xid for xid in range(1, 25) if second.holds(xid, 1)] == [11, 15, 16, 17, 19]
    assert list(second.usual) == []  # 13 still runs, so nothing is sure without asking


def test_a_row_cannot_be_older_than_the_window_before_its_transaction():
    first, second, third = places(
        seal(1, "1:1:", "10:10:", 0), seal(2, "10:10:", "12:15:12", 10), seal(3, "12:15:12", "20:20:", 20)
    )
    assert first.earliest(5) == at(-35)  # the epoch began at -30
    assert second.earliest(10) == at(-5)
    assert third.earliest(16) == at(5)
    assert third.earliest(12) == at(-5)  # it ran while the second window ended, and began after the first
    assert third.high == at(25)


def test_a_clock_that_was_set_back_is_no_forgery():
    _, second, third = places(
        seal(1, "1:1:", "10:10:", 0), seal(2, "10:10:", "12:15:12", -3600), seal(3, "12:15:12", "20:20:", -3590)
    )
    for seconds in (1, -3600):  # before the clock was set, and after
        assert second.earliest(11) <= at(seconds) <= second.high
    assert third.earliest(12) <= at(-3595)
    assert not third.earliest(16) <= at(-7200)


def test_what_is_left_of_an_epoch_is_what_no_batch_took_in():
    opened = seal(2, "10:10:", "20:20:", 1, closes=False, to_xid=14, to_id=50)
    *_, rest = places(seal(1, "1:1:", "10:10:", 0), opened, seal(3, "10:10:", "20:20:", 9, rest=True))
    assert rest.holds(14, 51)
    assert rest.holds(15, 1)
    assert rest.holds(25, 1)
    assert not rest.holds(14, 50)
    assert not rest.holds(9, 1)
    assert rest.holds(9, 101)  # written after a restore, under an old transaction's number


def test_what_is_left_of_an_epoch_is_no_older_than_its_last_window():
    first, second = seal(1, "1:1:", "10:10:", 0), seal(2, "10:10:", "20:20:12", 60)
    *_, rest = places(first, second, seal(3, "10:10:", "20:20:12", 90, rest=True))
    assert rest.earliest(25) == at(55)
    assert rest.earliest(3) == at(55)  # of a restored cluster, which counts transactions from the beginning
    assert rest.earliest(12) == at(-5)  # it was running when the second window ended, and began after the first
    assert rest.high == at(95)

    *_, rest = places(first, replace(second, closes=False, to_xid=14), seal(3, "10:10:", "20:20:12", 90, rest=True))
    assert rest.earliest(15) == at(-5)  # of the open window
    # The clock of the restored cluster is an hour behind: then only the epoch's start bounds them.
    *_, rest = places(first, second, seal(3, "10:10:", "20:20:12", -3600, rest=True))
    assert rest.earliest(25) == at(-3605)


def test_the_first_window_of_an_epoch_is_no_older_than_the_epoch():
    ended = [seal(1, "1:1:", "10:10:", 60), seal(2, "1:1:", "10:10:", 95, rest=True)]
    for begun, is_misdated in ((90, False), (60, False), (50, True), (-30, True)):
        *_, first = places(*ended, seal(3, "1:1:", "30:30:", 100, epoch=2, epoch_at=text(begun)))
        assert (first.earliest(12), first.is_misdated) == (at(begun - 5), is_misdated)


def test_a_widened_snapshot_shows_the_same():
    for snapshot in ("10:10:", "10:15:11,13", "7:9:7"):
        wide = Snapshot(widened(snapshot, 18))
        assert wide.xmax == 18
        assert [wide.shows(xid) for xid in range(25)] == [Snapshot(snapshot).shows(xid) for xid in range(25)]
    assert widened("10:15:11", 15) == "10:15:11"
    assert Snapshot(widened("10:15:11", 10**9)).xmax < 20_000


def test_windows_join_end_to_end():
    first = seal(1, "1:1:", "10:10:", 0)
    assert broken_links(None, first) == []
    assert broken_links(first, seal(2, "10:10:", "20:20:", 1)) == []
    for wrong in (
        seal(3, "10:10:", "20:20:", 1),
        seal(2, "10:10:", "20:20:", 1, first_index=5, size=6),
        seal(2, "11:11:", "20:20:", 1),
        seal(2, "10:10:", "20:20:", 1, count=2),
        seal(2, "10:10:", "20:20:", 1, rest=True),
        replace(seal(2, "10:10:", "20:20:", 1), max_id=7),
        seal(2, "10:10:", "20:20:", 1, epoch_at=text(-31)),
        replace(seal(2, "10:10:", "20:20:", 1), header=b"not json"),
        replace(seal(2, "1:1:", "20:20:", 1), epoch=2),
    ):
        assert broken_links(first, wrong), wrong
    assert broken_links(None, seal(1, "2:2:", "10:10:", 0))


def test_times_survive_their_text():
    for time in (0, 1, -1, 848_000_000_123_456, 2**63 - 1, -(2**63)):
        assert time_of_text(text_of_time(time)) == time
