"""Draws docs/map.svg from the imports: `python docs/draw_map.py`. A test compares the picture with the code."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "map.svg"
# The folders as they are drawn, from top to bottom. An arrow that would point up shows a wrong import.
ROWS = (("cli", "testing", "integrations"), ("api", "scheduler", "workers"), ("engine",), ("audit",), ("atlas",))
IMPORT = re.compile(r"^ *(?:from|import) (atlas[\w.]*)", re.MULTILINE)
MOST = max(map(len, ROWS))
WIDTH, HEIGHT, GAP, TOP = 250, 84, 30, 56
STYLE = (
    "text{font:13px sans-serif}.name{font-weight:bold;font-size:15px}"
    "rect{fill:#f6f8fa;stroke:#57606a}path{fill:none;stroke:#57606a}"
)


def draw() -> str:
    """A box for each folder, with the packages in it, and an arrow for each import that no other implies."""
    boxes = {name: _position(row, column) for row, names in enumerate(ROWS) for column, name in enumerate(names)}
    arrows = [_arrow(*boxes[source], *boxes[target]) for source, target in _needed(_imports())]
    width = MOST * (WIDTH + GAP) + GAP
    height = len(ROWS) * (HEIGHT + TOP)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0 8 4 0 8" style="fill:#57606a"/></marker></defs>',
            f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>',
            *arrows,
            *(line for name, (x, y) in boxes.items() for line in _box(name, x, y)),
            "</svg>\n",
        ]
    )


def _imports() -> set[tuple[str, str]]:
    """Which folder imports which."""
    names = {name for row in ROWS for name in row}
    imports = set()
    for folder in names:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path == ROOT / "atlas" / "__init__.py":  # the public names come from everywhere, when they are used
                continue
            for parts in (name.split(".") for name in IMPORT.findall(path.read_text(encoding="utf-8"))):
                target = parts[1] if len(parts) > 1 and parts[1] in names else "atlas"
                if target != folder:
                    imports.add((folder, target))
    return imports


def _needed(imports: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without those that a longer way implies."""

    def reaches(source: str, target: str) -> bool:
        return any(importer == source and (to == target or reaches(to, target)) for importer, to in imports)

    return sorted(
        (source, target)
        for source, target in imports
        if not any(importer == source and to != target and reaches(to, target) for importer, to in imports)
    )


def _position(row: int, column: int) -> tuple[int, int]:
    left = (MOST - len(ROWS[row])) * (WIDTH + GAP) // 2
    return GAP + left + column * (WIDTH + GAP), TOP // 2 + row * (HEIGHT + TOP)


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    start, end, middle = x + WIDTH // 2, to_x + WIDTH // 2, (y + HEIGHT + to_y) // 2
    return f'<path d="M{start} {y + HEIGHT}C{start} {middle} {end} {middle} {end} {to_y}" marker-end="url(#tip)"/>'


def _box(name: str, x: int, y: int) -> Iterator[str]:
    inside = sorted(path.parent.name for path in (ROOT / name).glob("*/__init__.py"))
    lines = [", ".join(inside[at : at + 4]) for at in range(0, len(inside), 4)]
    yield f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
    yield f'<text class="name" x="{x + 12}" y="{y + 24}">{name}</text>'
    yield from (f'<text x="{x + 12}" y="{y + 46 + 18 * nth}">{line}</text>' for nth, line in enumerate(lines))


if __name__ == "__main__":
    MAP.write_text(draw())
