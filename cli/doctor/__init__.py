"""`atlas doctor`: checks the machine and the database, and says how to correct what is wrong."""

from atlas.cli.doctor.command import doctor

__all__ = ["doctor"]
