"""The programs that faults strike. A new one adds itself to PROGRAMS."""

from functools import partial

from tests.faults.audit_commands import AUDIT_COMMANDS
from tests.faults.capability import all_done, beside_all, types_of
from tests.faults.commands import COMMANDS
from tests.faults.deliveries import DELIVERIES
from tests.faults.history import HISTORY
from tests.faults.machines import MACHINES
from tests.faults.maintenance import MAINTENANCE
from tests.faults.mix import WORKER_MIX, give_worker_mix
from tests.faults.moves import MOVES
from tests.faults.program import EXPIRE_WORKERS, Program
from tests.faults.record_commands import RECORD_COMMANDS
from tests.faults.requests import REQUESTS
from tests.faults.scheduler import SCHEDULER
from tests.faults.work_commands import WORK_COMMANDS

WORKER = Program(
    "worker",
    (
        "worker",
        "--types",
        types_of(WORKER_MIX),
        *("--app", "tests.faults.mix", "--concurrency", "4", "--poll-ms", "100"),
    ),
    give_worker_mix,
    all_done(WORKER_MIX),
    tuple(law for capability in WORKER_MIX for law in capability.laws),
    serves=True,
    closes_gate=True,
    expire=EXPIRE_WORKERS,
    beside=partial(beside_all, WORKER_MIX),
    settings={
        "ATLAS_LEASE_SECONDS": "30",
        "ATLAS_GRACE_SECONDS": "1",
        "ATLAS_SECRET_KEY_FILE": "secret.key",
        "OUTBOUND_EMAIL_PROVIDER": "outbox",
    },
)

COMMAND_PROGRAMS = (*COMMANDS, *WORK_COMMANDS, *RECORD_COMMANDS, *AUDIT_COMMANDS, *MOVES)
PROGRAMS = {
    program.name: program
    for program in (WORKER, SCHEDULER, *DELIVERIES, *COMMAND_PROGRAMS, *REQUESTS, *MACHINES, *MAINTENANCE, *HISTORY)
}
