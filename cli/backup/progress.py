"""Says on a terminal how far a dump or a restore is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def progress(what: str, *, json: bool) -> Iterator[Callable[[int], None]]:
    """A function for the bytes written so far. Silent where stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=json or not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda size: bar.update(task, completed=size)
