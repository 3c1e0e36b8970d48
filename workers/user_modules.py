"""Imports the user's modules, whose decorators register handlers."""

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

from atlas.errors import AtlasError

# A library that a module of --app may set up, with what it needs around each job. Both are named, so that nothing of a
# library is loaded where it is not used.
HOOKS = {"django.apps": "atlas.integrations.django.connection_hooks"}


class AppNotLoaded(AtlasError):
    """A module named by --app could not be imported."""


def load_apps(names: Iterable[str]) -> None:
    """Import each module. The working folder is the last on the import path, so that it hides no installed package."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    for name in names:
        try:
            importlib.import_module(name)
        except AtlasError:
            raise
        except ImportError as error:
            raise AppNotLoaded(
                f"The module {name!r} of --app cannot be imported: {error}.",
                remedy="Name a module that can be imported from the working folder, for example mypackage.jobs.",
            ) from error
        except Exception as error:
            raise AppNotLoaded(
                f"The module {name!r} of --app failed while it was imported: {type(error).__name__}: {error}.",
                remedy="Correct the module; `python -c 'import " + name + "'` shows where it fails.",
            ) from error
    _register_hooks()


def _register_hooks() -> None:
    """Register the hooks of the libraries that the modules have set up, whether or not they asked for them.

    Without those of Django every job of a thread fails once the server has closed the thread's connection.
    """
    for library, hooks in HOOKS.items():
        loaded = sys.modules.get(library)
        if loaded is not None and loaded.apps.ready:
            importlib.import_module(hooks).register_hooks()
