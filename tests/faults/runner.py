"""Runs cases: a program through the proxy, faults at its statements, and the judge."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from atlas.db.pool import connect
from atlas.engine.jobs.switches.gate import switch
from atlas.test_databases import EMPTY, TestDatabases
from tests.cli.warm_process import WarmProcess
from tests.faults.effects import VARIABLE, read_effects
from tests.faults.judge import Evidence, judge
from tests.faults.points import Case, Point, Strike
from tests.faults.processes import MODULES
from tests.faults.program import Program
from tests.faults.programs import PROGRAMS
from tests.faults.running_case import FROZEN_SECONDS, RunningCase
from tests.faults.wire import WireProxy
from tests.support import DANA, ROOT


@dataclass
class Verdict:
    """How a case ended."""

    case: Case
    broken: list[str] = field(default_factory=list)
    struck: list[Strike] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    commits: int = 0
    starts: int = 0
    seconds: float = 0.0

    @property
    def missed(self) -> list[Strike]:
        """What did not strike: the program did not reach the statement."""
        return [strike for strike in self.case.strikes if strike not in self.struck]

    def __str__(self) -> str:
        places = [f"  {strike}: {self.texts.get(strike.point.statement, '?')[:150]}" for strike in self.case.strikes]
        return "\n".join([f"atlas-faults replay {self.case}", *places, *(f"  broken: {one}" for one in self.broken)])


class Runner:
    """Runs cases on one server, several at a time."""

    def __init__(
        self, databases: TestDatabases, folder: Path, programs: Mapping[str, Program] = PROGRAMS, *modules: str
    ) -> None:
        self._databases = databases
        self._programs = programs
        self.samples = {name: program.samples for name, program in programs.items()}
        self._folder = folder
        self._templates: dict[str, asyncio.Task[str]] = {}
        self._writing = asyncio.Lock()
        env = {name: value for name, value in os.environ.items() if not name.startswith(("ATLAS_", "DATABASE_URL"))}
        self._env = {**env, "PYTHONPATH": str(ROOT), "ATLAS_LOG_LEVEL": "warning"}
        self._warm = WarmProcess(self._env, *MODULES, *modules)

    def close(self) -> None:
        """End the warm process."""
        self._warm.close()

    async def count(self, name: str) -> Verdict:
        """Run a program without faults: the verdict has its points."""
        return await self.run(Case(name))

    async def run(self, case: Case) -> Verdict:
        """Run a program with the faults of a case."""
        program = self._programs[case.program]
        template = EMPTY if program.give is None else await self._template(program)
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        if program.reads is not None:
            await self._copy_file(program.reads, folder)
        for name, text in program.files.items():
            (folder / name).write_text(text)
        began = time.monotonic()
        proxied = {"delay": FROZEN_SECONDS, "alike": program.alike}
        async with self._databases.copy(template) as url, WireProxy(url, case.strikes, **proxied) as proxy:
            conn = await connect(url)
            try:
                program = await _with_names(program, conn)
                async with nullcontext() if program.beside is None else program.beside(url, folder):
                    running = RunningCase(program, conn, url, folder, self._warm, self._settings(proxy, folder))
                    proxy.victim = running
                    broken = await running.run()
                evidence = Evidence(conn, read_effects(folder / "effects"), folder / "home", proxy.url)
                broken += await judge(evidence, program.laws)
            finally:
                await conn.close()
        seconds = time.monotonic() - began
        if not broken:
            if not case.strikes and program.file is not None:
                self._keep_file(program.name, folder / Path(program.file).parts[0])
            shutil.rmtree(folder, ignore_errors=True)
        return Verdict(case, broken, proxy.struck, proxy.points, proxy.texts, proxy.commits, running.starts, seconds)

    async def run_all(
        self, cases: Iterable[Case], *, at_once: int, report: Callable[[Verdict], None] = lambda verdict: None
    ) -> list[Verdict]:
        """Run cases, several at a time: most of the time of a slow fault is waiting. `report` is called after each."""
        slots = asyncio.Semaphore(at_once)

        async def run(case: Case) -> Verdict:
            async with slots:
                verdict = await self.run(case)
            report(verdict)
            return verdict

        return await asyncio.gather(*map(run, cases))

    async def shrink(self, verdict: Verdict) -> Verdict:
        """The shortest list of the faults of a broken case that still breaks something."""
        for strike in verdict.case.strikes if len(verdict.case.strikes) > 1 else ():
            fewer = tuple(one for one in verdict.case.strikes if one != strike)
            again = await self.run(replace(verdict.case, strikes=fewer))
            if again.broken:
                return await self.shrink(again)
        return verdict

    async def _copy_file(self, name: str, folder: Path) -> None:
        """Copy what another program wrote in a run without faults, which is made now if there was none."""
        kept = self._folder / "files" / name
        async with self._writing:
            if not kept.exists():
                verdict = await self.count(name)
                assert verdict.broken == []
        shutil.copytree(kept, folder, dirs_exist_ok=True)

    def _keep_file(self, name: str, file: Path) -> None:
        kept = self._folder / "files" / name
        if not kept.exists():
            kept.mkdir(parents=True)
            shutil.move(file, kept)

    def _settings(self, proxy: WireProxy, folder: Path) -> dict[str, str]:
        return {
            **self._env,
            "DATABASE_URL": proxy.url,
            "ATLAS_HOME": str(folder / "home"),
            VARIABLE: str(folder / "effects"),
        }

    async def _template(self, program: Program) -> str:
        """A database in which the program has something to do."""
        if program.name not in self._templates:
            self._templates[program.name] = asyncio.create_task(self._databases.add_template(_filled(program)))
        return await asyncio.shield(self._templates[program.name])


async def _with_names(program: Program, conn: Any) -> Program:
    """The program with the arguments that its database has for it."""
    if program.names is None:
        return program
    name = str(await conn.fetchval(program.names))
    return replace(program, arguments=tuple(word.replace("{}", name) for word in program.arguments))


def _filled(program: Program) -> Any:
    async def fill(url: str) -> None:
        conn = await connect(url)
        await switch(conn, online=True, actor=DANA)
        assert program.give is not None
        await program.give(conn)
        await conn.close()

    return fill
