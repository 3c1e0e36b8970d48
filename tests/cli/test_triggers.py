"""`atlas trigger`, `atlas usage`, `atlas insights`, `atlas explain`: what people type, what they see, how a mistake is answered."""

import asyncpg
import pytest

from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.metering.usage import meter_usage
from atlas.engine.workflows.intents import request_workflow
from tests.engine.jobs.given import given_worker
from tests.pgbouncer import direct_url
from tests.support import DANA


async def test_a_schedule_is_added_seen_changed_fired_and_removed(atlas):
    await atlas("tenant", "add", "acme", "--timezone", "Europe/Berlin")
    target = ("--job-type", "report.weekly", "--input", '{"day": "{{ fire.local }}"}')
    added = await atlas("trigger", "add", "--tenant", "acme", "--cron", "0 9 * * mon-fri", *target, "--json")
    trigger = added.document
    listed = await atlas("trigger", "list", "--tenant", "acme")
    edited = await atlas(
        "trigger", "edit", trigger["id"], "--cron", "@hourly", "--misfire", "all", "--disable", "--json"
    )
    still = await atlas("trigger", "edit", trigger["id"], "--label", "hourly")
    fired = await atlas("trigger", "fire", trigger["id"], "--json")
    job = await atlas("jobs", "show", fired.document["job_id"], "--json")
    removed = await atlas("trigger", "remove", trigger["id"])
    gone = await atlas("trigger", "fire", trigger["id"])

    assert (trigger["label"], trigger["zone"], trigger["misfire"]) == ("0 9 * * mon-fri", "Europe/Berlin", "latest")
    assert "0 9 * * mon-fri (Europe/Berlin)" in listed.stdout
    assert edited.document["label"] == "@hourly"
    assert "no job type" in listed.stdout
    assert (edited.document["cron_expr"], edited.document["misfire"], edited.document["is_enabled"]) == (
        "@hourly",
        "all",
        False,
    )
    assert job.document["job"]["source_ref"] == trigger["id"]
    assert removed.stdout == f"Trigger {trigger['id']} (hourly) removed.\n"
    assert still.stdout == f"Trigger {trigger['id']} updated. There is no job type report.weekly yet.\n"
    assert f"There is no trigger {trigger['id']}" in gone.refusal


async def test_the_next_times_are_shown_in_both_clocks(atlas):
    shown = await atlas("trigger", "preview", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    counted = await atlas(
        "trigger", "preview", "--cron", "@daily", "--count", "400", "--timezone", "Europe/Berlin", "--json"
    )

    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["Europe/Berlin", "UTC"]
    assert len(lines) == 21
    times = counted.document["times"]
    # Midnight in Berlin is 22:00 or 23:00 in UTC, and over a year both.
    assert {time["utc"][11:16] for time in times} == {"22:00", "23:00"}


async def test_mistakes_are_refused_with_their_position_and_reason(atlas):
    wrong = await atlas("trigger", "add", "--tenant", "system", "--cron", "0 25 * * *", "--job-type", "x")
    neither = await atlas("trigger", "preview")
    nothing = await atlas("trigger", "edit", "0190a4c8-0000-7000-8000-00000000dead")

    assert "--cron: at character 3: '25' is no hour, which is 0 to 23" in wrong.refusal
    assert neither.code == nothing.code == 2


async def test_an_edit_that_names_a_schedule_and_an_event_is_refused(atlas):
    target = ("--tenant", "system", "--job-type", "x", "--json")
    trigger = (await atlas("trigger", "add", "--cron", "@daily", "--timezone", "Europe/Berlin", *target)).document
    both = await atlas("trigger", "edit", trigger["id"], "--cron", "@hourly", "--event", "invoice.paid")
    event = await atlas("trigger", "edit", trigger["id"], "--event", "invoice.paid", "--json")
    schedule = await atlas("trigger", "edit", trigger["id"], "--cron", "@hourly", "--json")

    assert "--cron: does not apply to an event trigger" in both.refusal
    assert (event.document["event_name"], event.document["timezone"]) == ("invoice.paid", None)
    assert (schedule.document["event_name"], schedule.document["cron_expr"]) == (None, "@hourly")


async def test_a_dedupe_window_of_nothing_turns_it_off_with_a_unit_or_without(atlas):
    target = ("--tenant", "system", "--event", "invoice.paid", "--job-type", "x", "--json")
    trigger = (await atlas("trigger", "add", "--dedupe-window", "0s", *target)).document
    on = await atlas("trigger", "edit", trigger["id"], "--dedupe-window", "5m", "--json")
    off = await atlas("trigger", "edit", trigger["id"], "--dedupe-window", "0", "--json")

    windows = [shown["dedupe_window_seconds"] for shown in (trigger, on.document, off.document)]
    assert windows == [0, 300, 0]


async def test_usage_is_shown_for_a_period_and_a_wrong_time_is_refused(atlas, database_url):
    nothing = await atlas("usage", "--tenant", "system", "--from", "2027-01-01", "--to", "2027-02-01")
    conn = await asyncpg.connect(direct_url(database_url))
    await conn.execute(
        """insert into atlas.usage_hourly (tenant_id, job_type, hour, runs, succeeded, failed, run_seconds, cost_cents)
           select id, 'report.build', '2027-01-05 06:00Z', 3, 2, 1, 4.5, 250 from atlas.tenants"""
    )
    await conn.close()
    some = await atlas("usage", "--tenant", "system", "--from", "2027-01-01", "--to", "2027-02-01")
    wrong = await atlas("usage", "--from", "yesterday")
    early = await atlas("usage", "--to", "0001-01-05")

    assert nothing.stdout == early.stdout == "There is no usage in that time.\n"
    assert " ".join(some.stdout.splitlines()[1].split()) == "report.build 3 2 1 0 0 0 4.5 0.0 2.50 EUR"
    assert "--since: 'yesterday' is not a time such as 5m" in wrong.refusal


@pytest.mark.long
async def test_insights_and_explanations_are_shown_for_whatever_an_id_is(atlas, conn):
    assert (await atlas("insights")).stdout == "Nothing happened in that time.\n"
    assert (await atlas("insights", "--csv")).stdout.startswith("begins_at,tenant,job_type,enqueued")
    assert (await atlas("insights", "--csv", "--json")).code == 2
    job = (await atlas("enqueue", "x.work", "--tenant", "system", "--allow-unknown", "--json")).document["id"]
    while await meter_usage(conn):
        pass
    shown = await atlas("insights", "--days", "1")
    assert [line.split()[0] for line in shown.stdout.splitlines()[2:]] == ["x.work", "all"]
    assert (await atlas("insights", "--by", "tenant", "--json")).document["groups"][0]["tenant"] == "system"

    made = await atlas("trigger", "add", "--tenant", "system", "--cron", "@hourly", "--job-type", "x.work", "--json")
    trigger = made.document["id"]
    await switch(conn, online=True, actor=DANA)
    worker = await given_worker(conn, "y.work")
    run = await request_workflow(conn, SYSTEM_TENANT, "greet", {}, DANA, allow_unknown=True)
    found = [
        (await atlas("explain", str(id), "--json")).document for id in (job, trigger, worker.id, run, str(run)[:35])
    ]
    assert [one["kind"] for one in found] == ["job", "trigger", "worker", "run", "run"]
    assert (await atlas("explain", trigger)).stdout.startswith("Fires next at ")
    assert "There is no" in (await atlas("explain", str(SYSTEM_TENANT))).refusal
