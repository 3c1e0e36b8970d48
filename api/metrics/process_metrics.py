"""Metrics of several API processes on one port: a scrape reaches one of them, and returns those of all.

Each process writes its own to a file of a folder that they share, every two seconds. Their samples carry the label
`process`: where one ends and is started again, its counters begin anew, and those of the others go on.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from atlas.logs import get_logger

# For the children of `atlas api --processes`: the number of the process, and the folder.
VARIABLE = "ATLAS_API_PROCESS"
WRITE_SECONDS = 2.0

log = get_logger("api")


@dataclass(frozen=True, slots=True)
class ApiProcess:
    """One of several API processes on one port."""

    number: int
    folder: Path

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "ApiProcess | None":
        """The process that these variables describe; None for one that is alone on its port."""
        number, _, folder = variables.get(VARIABLE, "").partition(":")
        return cls(int(number), Path(folder)) if folder else None

    @property
    def variables(self) -> dict[str, str]:
        """The variables to start it with."""
        return {VARIABLE: f"{self.number}:{self.folder}"}

    async def keep_written(self, own: Callable[[], Iterable[Metric]]) -> None:
        """Write this process's metrics again and again, for as long as it runs."""
        while True:
            try:
                self.write(own())
            except OSError as error:
                log.warning("the other API processes cannot show the metrics of this one", reason=str(error))
            await asyncio.sleep(WRITE_SECONDS)

    def write(self, own: Iterable[Metric]) -> None:
        """Write these metrics for the other processes."""
        written = self._file.with_suffix(".new")
        written.write_bytes(generate_latest(_Families(list(self._labelled(own)))))
        written.replace(self._file)

    def join(self, own: Iterable[Metric]) -> Iterator[Metric]:
        """These metrics of this process, with what the others last wrote."""
        others = self._read_others()
        for metric in self._labelled(own):
            for other in others:
                metric.samples.extend(other.get(metric.name, ()))
            yield metric

    def _labelled(self, own: Iterable[Metric]) -> Iterator[Metric]:
        label = {"process": str(self.number)}
        for metric in own:
            metric.samples = [sample._replace(labels={**sample.labels, **label}) for sample in metric.samples]
            yield metric

    def _read_others(self) -> list[dict[str, list[Sample]]]:
        texts = [file.read_text(encoding="utf-8") for file in self.folder.glob("*.prom") if file != self._file]
        return [{family.name: family.samples for family in text_string_to_metric_families(text)} for text in texts]

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.number}.prom"


class _Families(CollectorRegistry):
    """Some metrics in the form that the writer of Prometheus's text asks for."""

    def __init__(self, families: list[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
