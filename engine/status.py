"""What `atlas status` and the API's status show of an installation."""

from pathlib import Path

from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.db.versions import running_versions
from atlas.engine.jobs.lists.find import queue_depth
from atlas.engine.jobs.lists.find_workers import list_workers
from atlas.engine.jobs.switches.gate import read_gate
from atlas.engine.jobs.switches.pauses import list_pauses
from atlas.engine.workflows.engine_state import read_engine
from atlas.home.up_report import read_programs
from atlas.models.system import SystemStatus

LOST_END = statement("engine/sql/lost_end.sql")

# The most workers in the status; `list_workers` reads the others.
MAX_WORKERS = 200


async def read_status(conn: Connection, *, home: Path) -> SystemStatus:
    """The state of an installation, of all tenants. `home` is the folder of the `atlas up` that may run here."""
    return SystemStatus(
        gate=await read_gate(conn),
        pauses=await list_pauses(conn),
        queue=await queue_depth(conn),
        workers=await list_workers(conn, alive_only=True, limit=MAX_WORKERS),
        engine=await read_engine(conn),
        programs=read_programs(home),
        audit_lost_end=await fetch_value(conn, LOST_END),
        versions=await running_versions(conn),
    )
