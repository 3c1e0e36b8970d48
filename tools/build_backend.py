"""The build backend of `pip install .`, `pip install git+…` and `pip wheel`: setuptools, after what must be generated.

The Prisma client and the web pages are not in version control. A build generates both, unless `make setup` has, with
the packages that `pyproject.toml` lists as `generate` and `node`. A source distribution contains both.
"""

import sys
import tomllib
from typing import Any

from setuptools import build_meta

from tools import setup

Config = dict[str, Any] | None

# `make setup` installs Atlas in editable mode, and generates the rest itself.
build_editable = build_meta.build_editable
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    """The packages that generate what is missing."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_generators()]


def get_requires_for_build_sdist(config_settings: Config = None) -> list[str]:
    """The same: a source distribution contains the generated files."""
    return [*build_meta.get_requires_for_build_sdist(config_settings), *_generators()]


def build_wheel(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    """A wheel with the generated client and the web pages."""
    _generate()
    wheel: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    return wheel


def build_sdist(sdist_directory: str, config_settings: Config = None) -> str:
    """A source distribution with the generated client and the web pages."""
    _generate()
    archive: str = build_meta.build_sdist(sdist_directory, config_settings)
    return archive


def _generate() -> None:
    if not _is_unpacked_sdist():
        setup.ensure_client(sys.executable)
        if not setup.pages_are_current():
            setup.make_pages(for_linting=False)


def _generators() -> list[str]:
    if _is_unpacked_sdist() or (setup.client_is_current(setup.GENERATED) and setup.pages_are_current()):
        return []
    extras = tomllib.loads((setup.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    return [*extras["generate"], *([] if setup.has_node() else extras["node"])]


def _is_unpacked_sdist() -> bool:
    return (setup.ROOT / "PKG-INFO").exists()
