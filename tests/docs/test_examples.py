"""The pages: every example is run as it stands there, and every block says by its language what is done with it."""

from dataclasses import fields

import pytest
from dotenv import dotenv_values

from atlas.settings import Settings, load_settings
from tests.docs.pages import CHECKED, PAGES, RUN, SHOWN, blocks_of
from tests.pgbouncer import without_pooler
from tests.postgres_versions import VERSIONS, needs_postgres
from tests.support import ROOT

# Pages whose examples have a test of their own, which looks at more than whether they run.
RUN_ELSEWHERE = {
    "prisma.md": ROOT / "tests" / "engine" / "jobs" / "test_prisma_page.py",
    "testing.md": ROOT / "tests" / "testing" / "test_page.py",
}
# The page that has most of what others show. `make proof` runs all; tests/cli/test_up.py starts what the README does.
QUICK = {"jobs.md"}
# Pages for programs in Python, which a newcomer tries beside `atlas up`.
UNDER_UP = ("jobs.md", "prisma.md", "scheduler.md", "workflows.md")
# One shows what a login sees that does not exist.
MARKS = {"troubleshooting.md": [without_pooler("it maps every login to one of its own")]}
RUNNABLE = [
    pytest.param(page, marks=[*MARKS.get(page.name, ()), *([] if page.name in QUICK else [pytest.mark.long])])
    for page in PAGES
    if blocks_of(page, *RUN) and page.name not in RUN_ELSEWHERE
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_is_done_with_it(page):
    assert [str(block) for block in blocks_of(page) if block.language not in RUN | CHECKED | SHOWN] == []


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_every_example_of_the_page_runs(page, session):
    blocks = blocks_of(page, *RUN)
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        session.run(block, following)


@pytest.mark.long
@pytest.mark.parametrize("under_up", [True])
@pytest.mark.parametrize("page", [ROOT / "docs" / name for name in UNDER_UP], ids=lambda page: page.name)
def test_every_example_of_the_page_runs_on_the_embedded_server(page, session, under_up):
    blocks = blocks_of(page, *RUN)
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        session.run(block, following)


@pytest.mark.long
@pytest.mark.parametrize("page", [ROOT / "docs" / "install.md"], ids=lambda page: page.name)
@pytest.mark.parametrize(
    "server_version", [pytest.param(version, marks=needs_postgres(version)) for version in VERSIONS[:-1]]
)
def test_the_installation_works_on_earlier_servers(page, session):
    test_every_example_of_the_page_runs(page, session)


def test_pages_that_are_run_elsewhere_are_run_there():
    assert all(f'"docs" / "{name}"' in test.read_text() for name, test in RUN_ELSEWHERE.items())


@pytest.mark.parametrize("block", [block for page in PAGES for block in blocks_of(page, "dotenv")], ids=str)
def test_settings_on_a_page_are_settings_of_atlas(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ".env"
    file.write_text(block.text.replace("…", "x"))
    names = {name for name in dotenv_values(file) if not name.startswith("AGENT_EMAIL_")}

    assert names <= {field.name.upper() for field in fields(Settings)}
    load_settings()
