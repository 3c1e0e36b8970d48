"""`atlas backup` and `atlas restore`: an installation in a folder, and back."""

from atlas.cli.backup.make import backup
from atlas.cli.backup.restore import restore

__all__ = ["backup", "restore"]
