"""Starts: reads the settings once and runs one of the programs."""

import json
import sys

from atlas.extras import MissingExtra, require


def main() -> None:
    """Run the command `atlas`, which a package without the extra `server` has in name alone."""
    try:
        require("server")
    except MissingExtra as error:
        if "--json" in sys.argv:
            document = {"type": error.type_name, "message": error.message, "remedy": error.remedy}
            print(json.dumps({"error": document}))
        raise SystemExit(f"error: {error}") from None
    from atlas.cli.main import main as run

    run()
