"""A failure that is tried again at once is logged once in ten seconds, with how often it was left out."""

from atlas import logs
from atlas.logs import RepeatedWarning


class Lines:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def warning(self, event: str, **facts: object) -> None:
        self.lines.append((event, facts))


def test_a_repeated_failure_is_logged_now_and_then(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    lines = Lines()
    failed = RepeatedWarning(lines, "claim failed")

    for seconds in (0.0, 0.3, 0.3, 10.0, 0.1, 60.0):
        now[0] += seconds
        failed.log(reason=f"at {now[0]:.1f}")

    assert lines.lines == [
        ("claim failed", {"reason": "at 100.0"}),
        ("claim failed", {"reason": "at 110.6", "left_out": 2}),
        ("claim failed", {"reason": "at 170.7", "left_out": 1}),
    ]
