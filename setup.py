"""Maps the folders at the top of the repository to one import name: `engine/` is `atlas.engine`."""

from pathlib import Path

from setuptools import find_packages, setup

FLOORS = ("api", "audit", "cli", "engine", "integrations", "scheduler", "testing", "workers")

# Folders of data, which are not imported.
DATA = {"atlas.migrations": "migrations", "atlas.examples": "examples"}
# `make setup` generates the Prisma client and leaves a copy for the wheel.
if Path("generated").is_dir():
    DATA["atlas.generated"] = "generated"
# And builds the web pages.
if Path("web/dist").is_dir():
    DATA["atlas.web.dist"] = "web/dist"

setup(
    packages=[
        "atlas",
        *(f"atlas.{name}" for name in find_packages("atlas")),
        *(f"atlas.{floor}" for floor in FLOORS),
        *(f"atlas.{floor}.{name}" for floor in FLOORS for name in find_packages(floor)),
        *DATA,
    ],
    package_dir={"atlas": "atlas", **{f"atlas.{floor}": floor for floor in FLOORS}, **DATA},
    package_data={
        "": ["sql/*.sql", "functions/*.sql", "pages/*", "py.typed", "schema.prisma"],
        "atlas.migrations": ["*/migration.sql", "migration_lock.toml"],
        "atlas.examples": ["*.json", "*/*"],
        "atlas.generated": ["*"],
        "atlas.web.dist": ["*", "assets/*"],
    },
)
