"""`atlas doctor`: looks at the machine and the database, and says what to do about what it finds."""

from atlas.cli.doctor.command import doctor

__all__ = ["doctor"]
