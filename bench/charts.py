"""Draws a row of figures as an SVG: a bar for each system. Its text is legible on light and on dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

NAME_WIDTH = 190
BAR_WIDTH = 400
LABEL_WIDTH = 150
ROW_HEIGHT = 26
TOP = 44
WIDTH = NAME_WIDTH + BAR_WIDTH + LABEL_WIDTH
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 14px }
.bar { fill: #8c959f }
.own { fill: #0969da }
.range { stroke: #24292f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.bar { fill: #6e7681 }
.own { fill: #4493f8 }
.range { stroke: #e6edf3 }
}"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A system's figure, the range that a thin line shows, and the figure in words. `None` has no bar."""

    name: str
    value: float | None
    label: str
    low: float = 0.0
    high: float = 0.0
    is_own: bool = False


def draw(title: str, bars: Sequence[Bar]) -> str:
    """The chart as a document of its own."""
    longest = max((max(bar.value or 0.0, bar.high) for bar in bars), default=0.0) or 1.0
    height = TOP + ROW_HEIGHT * len(bars) + 8
    rows = [_row(bar, TOP + ROW_HEIGHT * nth, BAR_WIDTH / longest) for nth, bar in enumerate(bars)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}\n</style>",
            f'<text class="title" x="8" y="22">{escape(title)}</text>',
            *rows,
            "</svg>\n",
        ]
    )


def _row(bar: Bar, top: int, scale: float) -> str:
    middle = top + ROW_HEIGHT / 2
    parts = [f'<text x="{NAME_WIDTH - 8}" y="{middle + 4:.0f}" text-anchor="end">{escape(bar.name)}</text>']
    end = float(NAME_WIDTH)
    if bar.value is not None:
        kind = "own" if bar.is_own else "bar"
        width = max(1.0, bar.value * scale)
        parts.append(
            f'<rect class="{kind}" x="{NAME_WIDTH}" y="{top + 4}" width="{width:.1f}" height="{ROW_HEIGHT - 8}"/>'
        )
        low, high = NAME_WIDTH + bar.low * scale, NAME_WIDTH + bar.high * scale
        parts.append(f'<line class="range" x1="{low:.1f}" y1="{middle:.0f}" x2="{high:.1f}" y2="{middle:.0f}"/>')
        end = max(NAME_WIDTH + width, high)
    parts.append(f'<text x="{end + 6:.0f}" y="{middle + 4:.0f}">{escape(bar.label)}</text>')
    return "".join(parts)
