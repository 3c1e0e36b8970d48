"""`python -m bench [--peers] [--quick] [NAME …]`: every benchmark, each in a process of its own, in turn."""

import argparse
import subprocess
import sys
from importlib.util import find_spec

# In the order in which one would ask: what a job costs, then what stands on it.
NAMES = ("jobs", "prisma_find", "audit", "email", "workflows", "scheduler", "api", "peers")


def main() -> int:
    """Run what was asked for and return the number of benchmarks that failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all of them if none is named")
    parser.add_argument("--peers", action="store_true", help="measure the comparable queues as well, beside Atlas")
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test, not figures")
    parser.add_argument("--only", metavar="PART", action="append", help="jobs alone: this part; may be repeated")
    parser.add_argument("--gate", action="store_true", help="jobs alone: fail if a ratio is far below the stored one")
    parser.add_argument("--store", action="store_true", help="with --gate: store the ratios of this run instead")
    chosen = parser.parse_args()
    if (chosen.gate or chosen.only) and not chosen.names:
        chosen.names = ["jobs"]
    unknown = [name for name in chosen.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    failed = 0
    for name in _chosen_names(chosen):
        print(f"\n== {name}", flush=True)
        failed += (
            subprocess.run([sys.executable, "-m", f"bench.{name}", *_options(name, chosen)], check=False).returncode
            != 0
        )
    return failed


def _chosen_names(chosen: argparse.Namespace) -> list[str]:
    names = chosen.names or [name for name in NAMES if name != "peers" and find_spec(f"bench.{name}")]
    return [*names, "peers"] if chosen.peers and "peers" not in names else names


def _options(name: str, chosen: argparse.Namespace) -> list[str]:
    options = {"jobs": ("quick", "gate", "store"), "peers": ("quick",)}.get(name, ())
    parts = [text for part in chosen.only or () for text in ("--only", part)] if name == "jobs" else []
    return [*(f"--{option}" for option in options if getattr(chosen, option)), *parts]


if __name__ == "__main__":
    sys.exit(main())
