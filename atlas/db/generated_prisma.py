"""Finds the code that Prisma generates, and leaves out of its import what only type checkers read.

`prisma generate` puts it into the installed package `prisma`. An installed Atlas brings a copy of its own, in
`generated/`, for machines on which nothing was generated.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from atlas.source import SOURCE

COPY = SOURCE / "generated"

_TYPES = "prisma.types"
_PASSED_ON = ("DatasourceOverride", "HttpConfig", "MetricsFormat")


class _TypesOnDemand(ModuleType):
    """Stands in for `prisma.types` until one of its types is asked for.

    The module declares thousands of TypedDicts; making them takes more than half of the time in which the generated
    code is imported (0.88 s of CPU, without them 0.39 s). Running code needs three names of it, which are not its own.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _PASSED_ON:
            return getattr(import_module("prisma._types"), name)
        if name.startswith("__") or sys.modules.get(_TYPES) is not self:
            raise AttributeError(f"module {_TYPES!r} has no attribute {name!r}")
        del sys.modules[_TYPES]
        # Those that have imported the stand-in keep it, so it gets everything that the module has.
        self.__dict__.update(import_module(_TYPES).__dict__)
        return getattr(self, name)


def generated_folder() -> Path | None:
    """The folder with the generated code; None where `prisma` is not installed."""
    spec = find_spec("prisma")
    if spec is None or not spec.submodule_search_locations:
        return None
    package = Path(spec.submodule_search_locations[0])
    return package if (package / "client.py").exists() else COPY


def prepare_import() -> None:
    """Let `import prisma` find the generated code. Does nothing if it has done so already."""
    module = sys.modules.get("prisma")
    if module is None:
        sys.modules.setdefault(_TYPES, _TypesOnDemand(_TYPES))
    elif "Prisma" in vars(module):
        return
    spec = find_spec("prisma")
    if spec is None or spec.loader is None or generated_folder() != COPY:
        return
    if module is None:
        module = sys.modules["prisma"] = module_from_spec(spec)
    module.__path__.append(str(COPY))
    spec.loader.exec_module(module)
