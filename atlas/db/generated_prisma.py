"""Spares the import of generated code, `atlas.generated`, what running code does not need of it.

Most of it is for type checkers, for Prisma's own generator and for Prisma's engine. All of it takes 0.9 s of CPU to
import; without that, and with the classes of one table instead of all, it takes a few hundredths. What is left out is
imported when it is asked for.
"""

import asyncio
import sys
from enum import StrEnum
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pydantic
from pydantic_core import CoreSchema, core_schema

from atlas.source import SOURCE

PACKAGE = "atlas.generated"
FOLDER = SOURCE / "generated"
# Names of types in annotations, which nothing evaluates.
_TYPES = (
    *("BaseModelT", "CoroType", "Datasource", "DatasourceOverride", "FuncType", "HttpConfig", "MetricsFormat"),
    *("PrismaMethod", "TransactionId", "TypeGuard"),
)


class _OnDemand(ModuleType):
    """Stands in for a module until a name is asked for that is not `known`."""

    def __init__(self, name: str, exports: dict[str, Any]) -> None:
        super().__init__(f"{PACKAGE}.{name}")
        self._exports = exports

    def __getattr__(self, name: str) -> Any:
        if name in self._exports:
            return self._exports[name]
        # pytest asks everything that a test module has for `_mock_name`.
        is_missing = name.startswith("__") or name == "_mock_name"
        if is_missing or sys.modules.get(self.__name__) is not self:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        for other in [module for module in sys.modules.values() if isinstance(module, _OnDemand)]:
            if other.__name__.startswith(self.__name__) or self.__name__.startswith(other.__name__):
                del sys.modules[other.__name__]
        # Those that have imported the stand-in keep it, so it gets everything that the module has.
        self.__dict__.update(import_module(self.__name__).__dict__)
        return getattr(self, name)


def prepare_import() -> None:
    """Called by the package itself, before it imports anything: the set-up writes that into it."""
    sys.modules.update({module.__name__: module for module in _stand_ins()})


def load_part(module: str, name: str) -> Any:
    """A class of a module that the set-up has split into a file for each class."""
    part = f"{module}_{name}"
    if name.startswith("_") or find_spec(part) is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    value = getattr(import_module(part), name)
    setattr(sys.modules[module], name, value)
    return value


def _stand_ins() -> list[_OnDemand]:
    types: dict[str, Any] = dict.fromkeys(_TYPES, Any)
    return [
        # Thousands of TypedDicts.
        _OnDemand("types", types),
        # These load httpx, and Prisma's engine.
        _OnDemand("_types", types),
        _OnDemand("http_abstract", {"AbstractResponse": list}),
        _OnDemand("engine._query", {"AsyncQueryEngine": Any, "SyncQueryEngine": Any}),
        _OnDemand("_builder", {"QueryBuilder": None, "dumps": None, "serialize_base64": None}),
        _OnDemand("_metrics", {"Metric": Any, "Metrics": Any, "MetricHistogram": Any}),
        # These load the first version of pydantic.
        _OnDemand("_compat", _compatibility()),
        _OnDemand("validator", {}),
        # What generates the client.
        _OnDemand("generator", {"partial_models_ctx": None, "PartialModelField": Any}),
        _OnDemand(
            "generator.models",
            {
                "EngineType": SimpleNamespace(binary="binary"),
                "BinaryPaths": SimpleNamespace(model_validate=dict),
                "OptionalValueFromEnvVar": Any,
            },
        ),
        _OnDemand("_config", {"config": None}),
    ]


def _compatibility() -> dict[str, Any]:
    """What the models need. Pydantic builds the validator of a model when it is first used: most rows need none."""
    return {
        "PYDANTIC_V2": True,
        "ConfigDict": partial(pydantic.ConfigDict, defer_build=True),
        "CoreSchema": CoreSchema,
        "StrEnum": StrEnum,
        "core_schema": core_schema,
        "field_validator": lambda *fields, pre, **_: pydantic.field_validator(
            *fields, mode="before" if pre else "after"
        ),
        "get_running_loop": asyncio.get_running_loop,
        "model_parse": _parsed,
        "model_rebuild": lambda model: None,
        "removeprefix": str.removeprefix,
    }


def _parsed(model: type[pydantic.BaseModel], value: Any) -> Any:
    return value if type(value) is model else model.model_validate(value)
