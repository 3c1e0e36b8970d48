"""`prisma.types` on demand.

The generated module declares thousands of TypedDicts, which only type checkers read; making them takes more than half
of the time in which the generated code is imported (0.88 s of CPU, without them 0.39 s). Running code needs three names
of it, which it has from elsewhere. So a stand-in takes its place until another name is asked for.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_NAME = "prisma.types"
_PASSED_ON = ("DatasourceOverride", "HttpConfig", "MetricsFormat")


class _TypesOnDemand(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in _PASSED_ON:
            return getattr(import_module("prisma._types"), name)
        if name.startswith("__") or sys.modules.get(_NAME) is not self:
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        del sys.modules[_NAME]
        # Those that have imported the stand-in keep it, so it gets everything that the module has.
        self.__dict__.update(import_module(_NAME).__dict__)
        return getattr(self, name)


def defer_types() -> None:
    """Put the stand-in in place, unless the module, or all of Prisma, was imported already."""
    if "prisma" not in sys.modules:
        sys.modules.setdefault(_NAME, _TypesOnDemand(_NAME))
