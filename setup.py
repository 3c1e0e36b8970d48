"""Maps the folders at the top of the repository to one import name: `engine/` is `atlas.engine`."""

from pathlib import Path

from setuptools import find_packages, setup

FLOORS = ("api", "audit", "cli", "engine", "integrations", "scheduler", "testing", "workers")

# Folders of data, which are not imported.
DATA = {"atlas.migrations": "migrations", "atlas.examples": "examples"}
# `make setup` generates the Prisma client.
GENERATED = {"atlas.generated": "generated"} if Path("generated").is_dir() else {}
# And builds the web pages.
if Path("web/dist").is_dir():
    DATA["atlas.web.dist"] = "web/dist"

setup(
    packages=[
        "atlas",
        *(f"atlas.{name}" for name in find_packages("atlas")),
        *(f"atlas.{floor}" for floor in FLOORS),
        *(f"atlas.{floor}.{name}" for floor in FLOORS for name in find_packages(floor)),
        *(f"{package}.{name}" for package, folder in GENERATED.items() for name in find_packages(folder)),
        *GENERATED,
        *DATA,
    ],
    package_dir={"atlas": "atlas", **{f"atlas.{floor}": floor for floor in FLOORS}, **GENERATED, **DATA},
    package_data={
        "": ["sql/*.sql", "functions/*.sql", "guards.json", "pages/*", "py.typed", "schema.prisma"],
        "atlas.migrations": ["*/migration.sql", "migration_lock.toml"],
        "atlas.examples": ["*.json", "*/*"],
        "atlas.generated": ["LICENSE", "schema.sha256"],
        "atlas.web.dist": ["*", "assets/*"],
    },
)
