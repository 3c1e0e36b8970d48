"""`manage.py atlas worker --all`: the command `atlas` with the settings and the jobs of a Django project."""

import os
import sys
from argparse import REMAINDER, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

# The programs that run handlers, and so load the project.
PROGRAMS = ("up", "worker", "scheduler")


class Command(BaseCommand):  # type: ignore[misc]  # Django brings no types
    """Replaces this process by the command `atlas`, to which the arguments belong."""

    help = "Run the command atlas with the jobs of this project: manage.py atlas worker --all"
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take all arguments as they are."""
        parser.add_argument("arguments", nargs=REMAINDER, help="what follows `atlas`, such as worker --all")

    def handle(self, *, arguments: list[str], **options: Any) -> None:
        """Run it. The folder of manage.py stays on the import path."""
        if arguments and arguments[0] in PROGRAMS:
            arguments = [arguments[0], "--app", "atlas.integrations.django.app", *arguments[1:]]
        path = [sys.path[0], *filter(None, [os.environ.get("PYTHONPATH")])]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-P", "-m", "atlas.cli.main", *arguments], env)
