"""Figures: pages and charts show the stored figures of the last run, and nothing else."""

import re
from xml.etree import ElementTree

from bench import figures
from bench.charts import Bar, draw
from bench.peers import measurement
from bench.peers.measure import PeerRow
from bench.peers.peer import WARM_UP
from bench.peers.stopwatch import delays

SVG = "{http://www.w3.org/2000/svg}"


def test_a_chart_is_well_formed_and_has_a_bar_for_each_figure():
    text = draw(
        "Drain <jobs/s> & more",
        [
            Bar("Atlas", 40_000, "40,000", 39_000, 41_000, is_own=True),
            Bar('a "peer" & <co>', 20_000, "20,000", 20_000, 20_000),
            Bar("absent", None, "not measured"),
        ],
    )

    chart = ElementTree.fromstring(text)
    own, peer = chart.iter(f"{SVG}rect")
    assert (own.get("class"), peer.get("class")) == ("own", "bar")
    assert float(own.get("width")) == 2 * float(peer.get("width"))
    words = [element.text for element in chart.iter(f"{SVG}text")]
    assert words == ["Drain <jobs/s> & more", "Atlas", "40,000", 'a "peer" & <co>', "20,000", "absent", "not measured"]
    # Every colour of the light page has one for the dark page.
    light, dark = chart.find(f"{SVG}style").text.split("@media (prefers-color-scheme: dark)")
    assert set(re.findall(r"\.?\w+ (?={ (?:fill|stroke): #)", light)) == {".bar ", ".own ", ".range "}
    assert all(name in dark for name in ("text {", ".bar {", ".own {", ".range {"))


def test_what_stands_between_the_comments_of_a_page_is_written_from_the_figures():
    row: PeerRow = {
        "taken_at": "2026-01-02T03:04:05+00:00",
        "machine": "2 cores",
        "server": "PostgreSQL 18.1",
        "rounds": 3,
        "systems": {
            "atlas": {"version": "1", "settings": "as it is", "amount": 100, "rates": [30.0, 10.0, 20.0]},
            "pg-boss": {"reason": "npm is not installed."},
        },
    }

    page = figures.with_figures(
        "before\n<!-- figures: jobs -->\nold\n<!-- end of figures -->\n"
        "<!-- figures: systems -->\n<!-- end of figures -->\nafter\n",
        {"drain": row},
    )

    assert page.startswith("before\n<!-- figures: jobs -->\n| |")
    assert "old" not in page
    assert "| Atlas | 20 (10–30) |" in page
    assert "| pg-boss | – |" in page
    assert "- pg-boss has no drain: npm is not installed." in page
    assert page.endswith("<!-- end of figures -->\nafter\n")
    assert "not measured" in figures.charts({"drain": row})["drain.svg"]


def test_the_pages_and_charts_show_the_stored_figures():
    rows = figures.read()

    assert set(rows) == {"drain", "enqueue_singly", "enqueue_bulk", "latency", "workflows", "workflow_latency"}
    for page in figures.PAGES:
        text = page.read_text()
        assert "<!-- figures: " in text
        assert figures.with_figures(text, rows) == text, f"{page.name} is out of date: run python -m bench.figures"
    drawn = figures.charts(rows)
    # That of docs/scale.md is drawn by bench.history_costs.
    charts = [path for path in figures.CHARTS.glob("*.svg") if path.name != "history.svg"]
    assert {path.name: path.read_text() for path in charts} == drawn
    speed = (figures.ROOT / "docs" / "speed.md").read_text()
    assert {name for name in drawn if f"charts/{name}" not in speed} == set()


async def test_a_peer_that_is_not_installed_has_a_reason_instead_of_figures(monkeypatch):
    monkeypatch.setitem(measurement.PEERS, "absent", "absent:Absent")

    taken = await measurement.measure("absent", "drain", 1, batch=None, database_url="postgresql:///absent")

    assert "is not installed" in taken["reason"]
    assert figures.summary(taken) == taken["reason"]


def test_delays_are_counted_from_the_call_and_from_its_return():
    calls = [(float(n), n + 0.25) for n in range(WARM_UP + 2)]
    moments = [n + 0.5 for n in range(WARM_UP + 1)] + [WARM_UP + 1.125]

    assert delays(moments, calls) == ([0.5, 0.125], [0.25, 0.0])
