"""The files of `deploy/`: what they name exists, their numbers fit each other, and the tools that read them accept them."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from dotenv import dotenv_values

from atlas.api.app import create_app
from atlas.cli.programs.process_group import MARGIN_SECONDS
from atlas.engine.jobs.lists.summary import KINDS
from atlas.settings import Settings, load_settings
from tests.docs.test_commands import fault_of
from tests.programs import needs_program, require_program, why_unusable
from tests.support import ROOT, until

DEPLOY = ROOT / "deploy"
ATLAS = "/srv/atlas/.venv/bin/atlas"
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = {path.name: list(yaml.safe_load_all(path.read_text())) for path in (DEPLOY / "kubernetes").glob("*.yaml")}
OBJECTS = [document for documents in MANIFESTS.values() for document in documents]
PODS = {
    one["metadata"]["labels"]["program"]: one["spec"]["template"]["spec"]
    for one in OBJECTS
    if "template" in one.get("spec", {})
}
OURS = {name: service for name, service in COMPOSE["services"].items() if name != "postgres"}
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "atlas.json").read_text())
# How bad the worst unit may be, of 100: below 20 `systemd-analyze security` calls it OK.
MAX_EXPOSED = 20


def read_unit(path: Path) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(path.read_text())
    return unit


def commands() -> dict[str, str]:
    """The commands of all files, by where they stand."""
    found = {f"compose.yaml {name}": shlex.join(service["command"]) for name, service in OURS.items()}
    found |= {f"kubernetes {name}": shlex.join(pod["containers"][0]["args"]) for name, pod in PODS.items()}
    for unit in UNITS:
        for number, command in enumerate(re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)):
            program, _, arguments = command.partition(" ")
            assert program == ATLAS
            found[f"{unit.name} {number}"] = arguments
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            spoken = re.findall(r"(?:`atlas|\btools|: atlas) ([a-z][^`\n]*)", path.read_text())
            found |= {f"{path.name}: {command}": command for command in spoken}
    [found["Dockerfile"]] = (
        " ".join(json.loads(words)) for words in re.findall(r"^CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    )
    return found


COMMANDS = commands()


@pytest.mark.parametrize("where", COMMANDS)
def test_every_command_and_option_exists(where):
    assert fault_of(COMMANDS[where]) is None


SETTINGS = {
    "Dockerfile": dict(re.findall(r"^(?:ENV| )\s*(ATLAS_\w+)=(\S+)", DOCKERFILE, re.MULTILINE)),
    "atlas.env": dotenv_values(DEPLOY / "systemd" / "atlas.env"),
    "settings.yaml": MANIFESTS["settings.yaml"][0]["data"],
    **{f"compose.yaml {name}": service["environment"] for name, service in OURS.items()},
    **{
        f"kubernetes {name}": {one["name"]: one["value"] for one in pod["containers"][0].get("env", [])}
        for name, pod in PODS.items()
    },
}


@pytest.mark.parametrize("where", SETTINGS)
def test_every_variable_is_a_setting_with_a_value_that_it_may_have(where, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    given = SETTINGS[where]
    assert {*given} <= {field.name.upper() for field in fields(Settings)}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    load_settings()


@pytest.fixture
async def exported(pool, database_url):
    """The labels of every metric that the API exports, by its name."""
    app = create_app(Settings(), pool, database_url)
    async with app.router.lifespan_context(app):
        # The listener's first test notification to itself.
        await until(lambda: app.state.signals.lag_seconds is not None)
        await app.state.metrics.text()
        families = list(app.state.metrics.collect())
    found = {}
    for family in families:
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        found |= {family.name + ending: {*family._labelnames, "le", "job", "instance", "process"} for ending in endings}
    return found


async def test_every_metric_and_label_of_the_alerts_and_the_dashboard_is_exported(exported):
    rules = [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]
    expressions = rules + [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    named = [one for text in expressions for one in re.findall(r"(atlas_\w+)(?:\{([^}]*)\})?", text)]

    assert len(named) > 30
    # Exported after the first verification by a scheduler.
    assert sorted({name for name, _ in named} - {*exported, "atlas_audit_whole"}) == []
    for name, matchers in named:
        assert {*re.findall(r"(\w+)\s*[!=]", matchers)} <= exported.get(name, set()), name
    kinds = {kind for _, matchers in named for kind in re.findall(r'kind="(\w+)"', matchers)}
    assert kinds <= {*KINDS.values()}


@pytest.mark.parametrize("program", PODS)
def test_pods_have_no_rights_and_mount_what_they_name(program):
    pod, [container] = PODS[program], PODS[program]["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    mounted = tuple(mount["mountPath"] for mount in container["volumeMounts"])
    files = [one["value"] for one in container.get("env", [])] + [
        SETTINGS["settings.yaml"][name] for name in ("ATLAS_HOME", "ATLAS_ALIVE_FILE")
    ]
    assert [file for file in files if not file.startswith(mounted)] == []


def test_programs_that_run_on_have_probes():
    for program in ("api", "worker", "scheduler"):
        [container] = PODS[program]["containers"]
        assert {"startupProbe", "livenessProbe"} <= {*container}
        if program == "api":
            paths = [
                container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
            ]
            assert paths == ["/healthz", "/healthz", "/readyz"]
        else:
            assert SETTINGS["settings.yaml"]["ATLAS_ALIVE_FILE"] in container["livenessProbe"]["exec"]["command"][-1]
    assert SETTINGS["Dockerfile"]["ATLAS_ALIVE_FILE"] in re.search("HEALTHCHECK(.*\n)+?.*CMD.*", DOCKERFILE)[0]


@pytest.mark.parametrize("age", [0, 3600])
def test_the_probe_tells_a_fresh_file_from_an_old_one(tmp_path, age):
    file = tmp_path / "alive"
    probe = PODS["worker"]["containers"][0]["livenessProbe"]["exec"]["command"]
    probe = [*probe[:-1], probe[-1].replace(SETTINGS["settings.yaml"]["ATLAS_ALIVE_FILE"], str(file))]
    assert subprocess.run(probe, check=False, capture_output=True).returncode != 0
    subprocess.run(["touch", "--date", f"-{age} seconds", file], check=True)

    assert (subprocess.run(probe, check=False).returncode == 0) is (age == 0)


def test_programs_have_time_to_stop():
    grace = Settings().atlas_grace_seconds
    needed = grace + MARGIN_SECONDS
    given = [service["stop_grace_period"] for name, service in OURS.items() if name in ("worker", "scheduler", "api")]
    given += [PODS[program]["terminationGracePeriodSeconds"] for program in ("worker", "scheduler")]
    given += [read_unit(unit)["Service"]["TimeoutStopSec"] for unit in UNITS if unit.stem != "atlas-check"]

    assert {settings["ATLAS_GRACE_SECONDS"] for settings in SETTINGS.values() if "ATLAS_GRACE_SECONDS" in settings} == {
        f"{grace:g}"
    }
    assert len(given) == 9
    assert all(int(str(seconds).removesuffix("s")) > needed for seconds in given)


def test_units_run_as_a_user_with_one_file_of_settings():
    for path in UNITS:
        service = read_unit(path)["Service"]
        assert (service["User"], service["EnvironmentFile"]) == ("atlas", "/etc/atlas/atlas.env")
        assert path.stem == "atlas-check" or (service["Restart"], service["KillMode"]) == ("always", "mixed")


def call(*command: str | Path, cwd: Path = DEPLOY) -> None:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_systemd_accepts_the_units_and_finds_them_closed(tmp_path):
    (tmp_path / "plain.service").write_text(f"[Service]\nExecStart={shutil.which('true')}\n")
    for ask in (["verify"], ["security", "--offline=true"]):
        require_program("systemd-analyze", *ask, str(tmp_path / "plain.service"))
    units = tmp_path / "units"
    shutil.copytree(DEPLOY / "systemd", units)
    for unit in units.glob("*.service"):
        # It looks whether the program exists.
        unit.write_text(unit.read_text().replace(ATLAS, shutil.which("true")))
    for unit in sorted([*units.glob("*.service"), *units.glob("*.timer")]):
        call("systemd-analyze", "verify", unit)
    for unit in units.glob("*.service"):
        call("systemd-analyze", "security", "--offline=true", f"--threshold={MAX_EXPOSED}", unit)


@needs_program("promtool", "check", "config", "--syntax-only", "--help")
def test_prometheus_accepts_the_alerts_and_they_fire_when_they_should():
    call("promtool", "check", "config", "--syntax-only", "prometheus/prometheus.yml")
    call("promtool", "check", "rules", "prometheus/alerts.yml")
    call("promtool", "test", "rules", "prometheus/alerts_test.yml")


@needs_program("promtool", "--version")
def test_prometheus_accepts_every_query_of_the_dashboard(tmp_path):
    queries = [
        target["expr"].replace("$__rate_interval", "5m") for panel in DASHBOARD["panels"] for target in panel["targets"]
    ]
    rules = [{"record": f"dashboard:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    call("promtool", "check", "rules", tmp_path / "rules.yml")


def test_compose_accepts_its_file(tmp_path):
    (tmp_path / "env").write_text("POSTGRES_PASSWORD=secret\n")
    commands = (["docker", "compose"], ["docker-compose"])
    reasons = [why_unusable(*command, "version") for command in commands]
    if None not in reasons:
        pytest.skip("; ".join(map(str, reasons)))
    compose = commands[reasons.index(None)]
    call(*compose, "--env-file", tmp_path / "env", "--file", "docker/compose.yaml", "config", "--quiet")


def test_panels_of_the_dashboard_do_not_overlap():
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
