"""A fault at every statement of every program: whatever strikes, the laws of the judge hold."""

import asyncio
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from atlas.api.app import read_description
from atlas.cli.command_table import COMMANDS, load_command
from atlas.prisma_client.read_schema import load_schema
from atlas.scheduler.audit_tasks import AuditTasks
from atlas.scheduler.maintenance import Maintenance
from atlas.settings import load_settings
from tests.cli.test_every_command_over_http import commands
from tests.faults.effects import Effect
from tests.faults.flows import recorded_steps_stay
from tests.faults.judge import Evidence, nothing_starts_offline, nothing_starts_paused
from tests.faults.limits import at_a_time
from tests.faults.maintenance import MAINTENANCE
from tests.faults.mix import MIX
from tests.faults.points import FAULTS, SLOW_FAULTS, Point, Strike, read_case, statement_key
from tests.faults.programs import COMMAND_PROGRAMS, PROGRAMS
from tests.faults.routes import ASKING, BY_COMMANDS, BY_REQUESTS, WRITING_READS
from tests.faults.runner import Runner, Verdict
from tests.faults.selection import cases_of
from tests.faults.transfer import TRANSFER
from tests.pgbouncer import without_pooler
from tests.support import PROOF, ROOT

pytestmark = without_pooler("the proxy reads the protocol of the server")
QUICK_FAULTS = [fault for fault in FAULTS if fault not in SLOW_FAULTS]
# In `make test`: how many cases of which programs. The seed is fixed, so that a failure is the same tomorrow.
SEED = 45
SAMPLE = {"enqueue": 2}


@pytest.fixture(scope="module")
def runner(databases, tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    made = Runner(databases, folder, {**PROGRAMS, "transfer": TRANSFER}, "tests.faults.transfer")
    yield made
    made.close()


# What strikes the writes of each table: a capability of the mix, or a program.
STRUCK_BY = {
    "jobs of several tenants": {
        "tenants",
        "jobs",
        "job_attempts",
        "job_types",
        "job_workers",
        "worker_keys",
        "audit_log",
    },
    "bulk-preview": {"bulk_previews"},
    "a limit by key": {"job_limits", "limit_events", "counted_jobs"},
    "a limit of a tenant": {"tenant_shares", "share_clock"},
    "a group": {"job_groups"},
    "a workflow in code": {"workflows", "intents", "workflow_runs", "workflow_steps"},
    "a workflow that waits for events": {"events"},
    "a mail": {"mail_ledger", "mail_slots", "mail_pace"},
    "a pause": {"pauses", "system_state"},
    "an approval": {"approvals"},
    "effects and transactions": {"effects"},
    "secrets": {"job_secrets"},
    "commands": {"job_definitions"},
    "a review": {"policy_rules"},
    "a schedule": {"job_triggers", "trigger_fires", "scheduler_leader", "running_programs"},
    "webhooks": {"webhooks"},
    "a bulk action": {"bulk_actions"},
    "history": {"history_changes", "history_bounds", "history_contents"},
    "requests to the API": {"api_tokens", "idempotency_keys"},
    "a host": {"hosts"},
    "messages to a hook": {"inbound_hooks"},
    "a recurring function": {"recurring_jobs", "recurring_runs"},
    "meter": {
        "dead_letters",
        "dead_letter_causes",
        "usage_hourly",
        "usage_costs",
        "job_counts",
        "job_totals",
        "job_series",
    },
    "seal": {"audit_seal", "audit_seal_tenant", "audit_checkpoint"},
    "audit-epoch": {"audit_epoch"},
    "audit-prune": {"audit_pruned"},
    "tenant-import": {"audit_moved"},
    "audit-erase": {"audit_private"},
    "grant-enqueue": {"enqueue_grants"},
    "session-end": {"sessions"},
    "instance-edit": {"server_instances"},
}
# Commands that write nothing to the database.
READING = {
    *("worker list", "doctor", "database-url", "status", "pauses", "usage", "insights", "explain"),
    *("jobs list", "jobs watch", "jobs types", "jobs dead-letters", "jobs show", "jobs logs", "jobs explain"),
    *("jobs bulk list", "group list", "group show", "outbox list", "outbox show", "effects list", "effects show"),
    *("workflow list", "workflow requests", "workflow show", "workflow check", "workflow dry-run"),
    *("workflow approvals", "workflow versions", "workflow diff", "workflow policy list", "effects reports"),
    *("trigger list", "trigger show", "trigger preview", "trigger fires", "event list", "recurring list"),
    *("recurring show", "webhooks list", "webhooks show", "hooks list", "hooks show", "tenant list", "tenant show"),
    *("token list", "session list", "grant list", "host list", "definition show", "definition list"),
    *("audit tail", "audit proof", "audit status", "audit seals", "audit checkpoints", "audit key"),
    *("audit verifications", "audit report access"),
}
# Commands that are struck by other means.
OTHERWISE = {
    "up": "starts the other programs",
    "api": "`requests` has its routes, and storms strike the process",
    "worker": "a program of its own",
    "scheduler": "a program of its own",
    "agent": "calls the API alone",
    "audit archive": "`audit-prune` runs it before",
    "bench": "measures databases of its own",
}


def figures(verdicts: list[Verdict]) -> str:
    struck = sum(len(verdict.struck) for verdict in verdicts)
    broken = [verdict for verdict in verdicts if verdict.broken]
    return f"{len(verdicts)} runs, {struck} faults struck, {len(broken)} broken laws"


@pytest.mark.timeout(1800)
async def test_a_sample_of_faults_breaks_no_law(runner):
    dice = Random(SEED)
    verdicts = []
    for name, count in SAMPLE.items():
        counted = await runner.count(name)
        cases = sorted(cases_of(name, counted.points, faults=QUICK_FAULTS, occurrences=1), key=str)
        verdicts += [counted, *await runner.run_all(dice.sample(cases, count), at_once=2)]
    print(f"faults: {figures(verdicts)}")
    assert [str(verdict) for verdict in verdicts if verdict.broken] == []
    assert sum(len(verdict.struck) for verdict in verdicts) > 0


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", PROGRAMS)
async def test_no_fault_at_any_statement_breaks_a_law(runner, name):
    counted = await runner.count(name)
    cases = cases_of(name, counted.points, faults=FAULTS if PROOF else QUICK_FAULTS, occurrences=None if PROOF else 1)
    verdicts = [counted, *await runner.run_all(cases, at_once=8 if PROOF else 4)]
    print(f"faults of {name}: {len(counted.points)} statements, {counted.commits} commits; {figures(verdicts)}")
    assert [str(verdict) for verdict in verdicts if verdict.broken] == []


def test_every_command_that_writes_is_struck():
    found = {words for name in COMMANDS for words in commands(load_command(name), name)}
    # `worker drain` begins as `worker` does.
    longest_first = sorted((words.split() for words in found), key=len, reverse=True)
    struck = {
        " ".join(next(words for words in longest_first if program.arguments[: len(words)] == tuple(words)))
        for program in COMMAND_PROGRAMS
    }

    assert found - struck - READING - OTHERWISE.keys() == set(), "add them to the programs, or to READING"
    assert struck & (READING | OTHERWISE.keys()) == set()
    assert (READING | OTHERWISE.keys()) - found == set()


def test_every_operation_that_writes_is_struck():
    operations = {
        one["operationId"]: method
        for path in read_description()["paths"].values()
        for method, one in path.items()
        if isinstance(one, dict)
    }
    writing = {name for name, method in operations.items() if method != "get"} | WRITING_READS
    struck = BY_COMMANDS | BY_REQUESTS

    assert writing - struck.keys() - ASKING == set(), "add it to the routes, with a request where no command calls it"
    assert struck.keys() | ASKING == writing
    assert set(struck.values()) - PROGRAMS.keys() == set()


def test_every_task_of_the_scheduler_is_struck():
    named: list[str] = []
    tasks = SimpleNamespace(add=lambda _, task: named.append(task.__name__))
    Maintenance(None, asyncio.Event()).add_to(tasks)
    AuditTasks(None, load_settings(atlas_checkpoint_copies=("file:///copies",))).add_to(tasks)
    # Its step is one that leaves out what repeats a failed turn.
    struck = {program.arguments[0] for program in MAINTENANCE} - {"bulk"} | {"go_on_with_bulk_actions"}

    assert set(named) - struck == set(), "add it to the steps"


def test_the_writes_of_every_table_are_struck():
    """A new table is the part of a capability that the mix must have, or of a program."""
    tables = {model.table for model in load_schema(ROOT / "schema.prisma").models.values() if not model.is_view}
    struck = {table for some in STRUCK_BY.values() for table in some}

    assert tables - struck == set(), "add its capability to the mix, or its program, and name it here"
    assert struck - tables == set()
    assert STRUCK_BY.keys() - {capability.name for capability in MIX} - PROGRAMS.keys() == set()


async def test_a_defect_is_found_at_its_statement_shrunk_and_repeated(runner):
    """The program moves money in two transactions. One place in it is wrong, and every visit finds it."""
    counted = await runner.count("transfer")
    assert counted.broken == []
    verdicts = await runner.run_all(cases_of("transfer", counted.points, faults=["kill_after"]), at_once=2)
    [found] = [verdict for verdict in verdicts if verdict.broken]
    assert "balance - #" in found.texts[found.struck[0].point.statement]

    harmless = Strike("raise", Point(statement_key("select 'something harmless'"), 1))
    longer = await runner.run(
        replace(found.case, strikes=(harmless, Strike("kill_after", Point(found.struck[0].point.statement, 1))))
    )
    assert longer.broken == found.broken
    shortest = await runner.shrink(longer)
    # That run was the repetition of the case.
    assert (shortest.case, shortest.broken) == (found.case, found.broken)
    assert read_case(str(found.case)) == found.case
    assert str(found.case) in str(found)


def effects(*lines: tuple) -> list[Effect]:
    return [Effect(what, at, 1, kind=kind, job_id=job_id, attempt=1, key=key) for what, at, kind, job_id, key in lines]


class NoRows:
    """A database in which nothing was recorded."""

    async def fetch(self, *_: object) -> list[object]:
        return []


@pytest.mark.parametrize(
    ("law", "lines", "broken"),
    [
        (
            nothing_starts_offline,
            [
                ("offline returned", 1.0, "", "", ""),
                ("start", 1.5, "x", "a", ""),
                ("online asked for", 2.0, "", "", ""),
            ],
            "started 0.500 s after offline had returned",
        ),
        (
            at_a_time("fault.keyed", 1),
            [("start", 1.0, "fault.keyed", "a", "k"), ("start", 1.1, "fault.keyed", "b", "k")],
            "2 fault.keyed jobs of k ran at the same time instead of 1",
        ),
        (
            recorded_steps_stay,
            [("did", 1.0, "", "", "1"), ("recorded", 1.1, "", "", "1"), ("did", 1.2, "", "", "1")],
            "step 1 ran again after it was recorded",
        ),
        (
            nothing_starts_paused,
            [
                ("pause returned", 1.0, "fault.paused", "", ""),
                ("start", 1.5, "fault.paused", "a", ""),
                ("resume asked for", 2.0, "fault.paused", "", ""),
            ],
            "started 0.500 s after the pause of its type",
        ),
    ],
)
async def test_the_judge_sees_what_it_judges(law, lines, broken, tmp_path):
    found = await law(Evidence(NoRows(), effects(*lines), tmp_path, ""))
    assert any(broken in one for one in found)
