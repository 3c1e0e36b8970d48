"""Everything that the API offers to people is in the web pages, or is named here with the reason why not."""

import re

from tests.support import ROOT

PROGRAMS = "for programs, not for people"
SAME_ROW = "the list that the page shows has the same fields"
COUNTED_FIRST = "the page changes the jobs of a group by an action on many jobs, which counts them first"

EXCEPTIONS = {
    "list_own_hosts": PROGRAMS,
    "fetch_host_job": PROGRAMS,
    "renew_host_job_lease": PROGRAMS,
    "report_host_job_progress": PROGRAMS,
    "report_host_job_result": PROGRAMS,
    "claim_jobs": PROGRAMS,
    "renew_job_lease": PROGRAMS,
    "report_job_progress": PROGRAMS,
    "complete_job": PROGRAMS,
    "fail_job": PROGRAMS,
    "run_due_jobs": PROGRAMS,
    "receive_message": PROGRAMS,
    "check_health": PROGRAMS,
    "check_readiness": PROGRAMS,
    "get_metrics": PROGRAMS,
    "find_ids": "completes ids on the command line; the palette finds jobs and runs by the beginning of their id",
    "cancel_group": COUNTED_FIRST,
    "retry_group": COUNTED_FIRST,
    "disable_definition": "the page disables a command by a change of it, which enables it again too",
    "get_bulk_action": SAME_ROW,
    "get_recurring_function": SAME_ROW,
    "get_event": SAME_ROW,
    "get_inbound_hook": SAME_ROW,
    "get_token": SAME_ROW,
    "get_verification": SAME_ROW,
}

METHODS = ("get", "post", "put", "patch", "delete")
CONSTANT = re.compile(r'const ([A-Z_]+) = "(/[^"]+)"')
CALL = re.compile(r'client\.(GET|POST|PUT|PATCH|DELETE)\(\s*(?:"([^"]+)"|([A-Z_]+))')
LIST = re.compile(r'useList\(\s*(?:"(/[^"]+)"|([A-Z_]+))')
HOOK = re.compile(r'"(get|post|put|patch|delete)",\s*(?:"(/[^"]+)"|([A-Z_]+))')
# Addresses of downloads, frames and the live socket, which are read without the typed client.
ADDRESS = re.compile(r"(?:`|new URL\(\")(/api/v1/(?:\$\{[^}]*\}|[^`\"?$])*)")


def called_by_pages() -> set[tuple[str, str]]:
    """Method and path of each call in the sources of the pages, with {} for a parameter."""
    files = [path for path in (ROOT / "web" / "src").rglob("*.ts*") if not re.search(r"\.(test|d)\.tsx?$", path.name)]
    sources = [path.read_text() for path in files]
    shared = {name: path for source in sources for name, path in CONSTANT.findall(source)}
    calls: set[tuple[str, str]] = set()
    for source in sources:
        constants = shared | dict(CONSTANT.findall(source))
        for method, path, name in [*CALL.findall(source), *HOOK.findall(source)]:
            calls.add((method.lower(), _blank(path or constants.get(name, ""))))
        calls |= {("get", _blank(path or constants.get(name, ""))) for path, name in LIST.findall(source)}
        calls |= {("get", _blank(re.sub(r"\$\{[^}]*\}", "{}", path))) for path in ADDRESS.findall(source)}
    return calls


def _blank(path: str) -> str:
    return re.sub(r"(?<!/)\{\}$", "", re.sub(r"\{[^}]*\}", "{}", path))


def test_each_operation_is_in_a_page_or_has_a_reason_not_to_be(spec):
    operations = {
        (method, _blank(path)): operation["operationId"]
        for path, item in spec["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }
    calls = called_by_pages()
    missing = {name for call, name in operations.items() if call not in calls}
    assert sorted(missing - set(EXCEPTIONS)) == []
    # An exception that a page covers by now, or that is gone, is taken out.
    assert sorted(set(EXCEPTIONS) - missing) == []
