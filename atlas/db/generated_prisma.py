"""Spares the import of generated code, `atlas.generated`, what running code does not need of it.

Most of it is for type checkers and for Prisma's own generator. All of it takes 0.9 s of CPU to import; without that it
takes 0.2 s. What is left out is imported when it is asked for.
"""

import sys
from functools import partial
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from pydantic import BaseModel

from atlas.source import SOURCE

PACKAGE = "atlas.generated"
FOLDER = SOURCE / "generated"


class _OnDemand(ModuleType):
    """Stands in for a module until a name is asked for that is not `known`."""

    def __init__(self, name: str, known: dict[str, Any]) -> None:
        super().__init__(f"{PACKAGE}.{name}")
        self._known = known

    def __getattr__(self, name: str) -> Any:
        if name in self._known:
            return self._known[name]
        if name.startswith("__") or sys.modules.get(self.__name__) is not self:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        for other in [one for one in sys.modules.values() if isinstance(one, _OnDemand)]:
            if other.__name__.startswith(self.__name__) or self.__name__.startswith(other.__name__):
                del sys.modules[other.__name__]
        # Those that have imported the stand-in keep it, so it gets everything that the module has.
        self.__dict__.update(import_module(self.__name__).__dict__)
        return getattr(self, name)


def prepare_import() -> None:
    """Called by the package itself, before it imports anything: the set-up writes that into it."""
    sys.modules.update({module.__name__: module for module in _stand_ins()})
    _build_on_demand(import_module(f"{PACKAGE}._compat"))


def _stand_ins() -> list[_OnDemand]:
    plain = import_module(f"{PACKAGE}._types")
    models: dict[str, Any] = {
        "EngineType": SimpleNamespace(binary="binary"),
        "BinaryPaths": SimpleNamespace(model_validate=dict),
        "OptionalValueFromEnvVar": Any,
    }
    return [
        # Thousands of TypedDicts, and three names that are not its own.
        _OnDemand(
            "types", {name: getattr(plain, name) for name in ("DatasourceOverride", "HttpConfig", "MetricsFormat")}
        ),
        _OnDemand("generator", {"partial_models_ctx": None, "PartialModelField": Any}),
        _OnDemand("generator.models", models),
        _OnDemand("_config", {"config": None}),
    ]


def _build_on_demand(compat: Any) -> None:
    """Let pydantic build the validator of a model when it is first used: most rows need none."""
    compat.ConfigDict = partial(compat.ConfigDict, defer_build=True)
    compat.model_rebuild = lambda model: None
    compat.model_parse = _parsed


def _parsed(model: type[BaseModel], value: Any) -> Any:
    return value if type(value) is model else model.model_validate(value)
