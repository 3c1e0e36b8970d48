"""Runs the Python of a page, block after block, as one program: what one block names, the next one knows.

python -m tests.docs.interpreter END      blocks come on stdin, a line of JSON each; END and a status follow each output
"""

import ast
import asyncio
import inspect
import json
import sys
import traceback
from typing import Any


def main(end: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            status = run(json.loads(line), names, runner)
            print(f"\n{end} {status}", flush=True)


def run(block: dict[str, Any], names: dict[str, Any], runner: asyncio.Runner) -> int:
    # The lines before it make those of an error the page's own.
    text = "\n" * (block["line"] - 1) + block["text"]
    try:
        code = compile(text, block["page"], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        awaited = eval(code, names)
        if inspect.iscoroutine(awaited):
            runner.run(awaited)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
