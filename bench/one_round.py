"""One round of one measurement, on a database server of its own: figures as a row of JSON.

`bench.compare` runs this text in two checkouts, one of which may be older. So it imports from `bench` alone, and only
names that older checkouts have too.
"""

import asyncio
import gc
import json
import sys
import tempfile
from pathlib import Path

from bench import workflows
from bench.jobs import __main__ as jobs
from bench.jobs import drain, enqueue, latency
from bench.jobs.ground import ground


async def measure(name: str, url: str, scale: int) -> dict[str, float]:
    """The figures of one measurement, by name; its sizes are divided by `scale`."""
    match name:
        case "drain":
            await drain.measure_worker(url, jobs=5000)
            return {"drain, jobs/s": await drain.measure_worker(url, jobs=100_000 // scale)}
        case "shapes":
            from bench.jobs import shapes

            drained = await shapes.measure(url, jobs=50_000 // scale, repeats=1, shapes=shapes.SHAPES)
            return {f"drain of {shape}, jobs/s": rate for shape, [rate] in drained.items()}
        case "variants":
            from bench.jobs import shapes, variants

            measured = await variants.measure(url, jobs=20_000 // scale, shapes=(shapes.ONE, shapes.Shape(20, 50)))
            return {f"{shape}, {how}, jobs/s": rate for shape, row in measured.items() for how, rate in row.items()}
        case "enqueue":
            rates = await enqueue.measure(url, singly=10_000 // scale, bulk=100_000 // scale, repeats=1)
            return {"enqueue singly, jobs/s": rates.single[0], "enqueue in bulk, jobs/s": rates.bulk[0]}
        case "latency":
            waited = await latency.measure(url, jobs=200 // scale + 20, deaf_jobs=1, repeats=1)
            return {"enqueue to start, p50 ms": waited.p50}
        case "workflows":
            async with ground(url, "workflows") as (pool, own):
                figures = await workflows.run(pool, own, runs=2000 // scale, rounds=3)
            return {"workflows of five steps, runs/s": figures["runs_per_second"]}
    raise ValueError(f"there is no measurement {name}")


async def main(name: str, scale: int) -> None:
    """Measure on a new server, and print."""
    jobs.configure_logs("error")  # type: ignore[attr-defined]  # their modules moved; the benchmarks import them from both
    # As the programs do when they start: what is loaded by now stays.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    with tempfile.TemporaryDirectory() as home:
        server = await jobs.start_embedded(Path(home))  # type: ignore[attr-defined]
        try:
            print(json.dumps(await measure(name, server.url("postgres"), scale)))
        finally:
            server.release()


if __name__ == "__main__":
    jobs.console.quiet = True
    with asyncio.Runner(loop_factory=workflows.uvloop.new_event_loop) as runner:  # type: ignore[attr-defined]
        runner.run(main(sys.argv[1], int(sys.argv[2])))
