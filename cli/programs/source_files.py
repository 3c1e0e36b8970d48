"""The source files of user modules: which of them changed, and whether they can be compiled."""

import asyncio
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

from atlas.logs import get_logger

LOOK_SECONDS = 0.5

log = get_logger("reload")


class SourceFiles:
    """The Python files of the packages that these modules are in, or, for a module in no package, beside it."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._roots = sorted({name.partition(".")[0] for name in modules})
        self._seen = self._stamps()

    def changed(self) -> list[Path]:
        """What was added, changed or removed since the last call."""
        before, self._seen = self._seen, self._stamps()
        return sorted(path for path in before.keys() | self._seen.keys() if before.get(path) != self._seen.get(path))

    def _stamps(self) -> dict[Path, tuple[int, int]]:
        stamps: dict[Path, tuple[int, int]] = {}
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:
                continue  # It was removed just now.
            stamps[path] = (stat.st_mtime_ns, stat.st_size)
        return stamps

    def _files(self) -> Iterator[Path]:
        for root in self._roots:
            spec = importlib.util.find_spec(root)
            if spec is not None and spec.submodule_search_locations:
                for folder in spec.submodule_search_locations:
                    yield from Path(folder).rglob("*.py")
            elif spec is not None and spec.origin is not None:
                yield from Path(spec.origin).parent.glob("*.py")


async def notify_changes(modules: Sequence[str], changed: asyncio.Event) -> None:
    """Set the event whenever files of these modules have changed and the changed ones compile."""
    files = SourceFiles(modules)
    broken: set[Path] = set()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        changes = files.changed()
        if not changes:
            continue
        broken = {path for path in broken.union(changes) if not _compiles(path)}
        if broken:
            log.error("files changed; the programs keep running the old code", broken=[str(path) for path in broken])
        else:
            log.info("files changed; the programs start again", files=[str(path) for path in changes])
            changed.set()


def _compiles(path: Path) -> bool:
    try:
        compile(path.read_bytes(), str(path), "exec")
    except FileNotFoundError:
        return True
    except (SyntaxError, ValueError) as error:
        log.error("a file cannot be compiled", file=str(path), reason=str(error))
        return False
    return True
