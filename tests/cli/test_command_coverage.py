"""Everything that the API offers to people is on the command line, or is named here with the reason why not."""

import ast
from collections.abc import Iterator

from tests.api.test_page_coverage import COUNTED_FIRST, METHODS, PROGRAMS
from tests.api.test_page_coverage import EXCEPTIONS as NOT_IN_PAGES
from tests.support import ROOT

LISTED = "the list that a command shows has the same fields"
FIGURES = "`atlas status` and `atlas insights` show these figures"
LOOKS = "for the look of a page"

EXCEPTIONS = {
    **{name: reason for name, reason in NOT_IN_PAGES.items() if reason == PROGRAMS},
    **dict.fromkeys(("get_event", "get_bulk_action", "get_policy", "get_recurring_function", "get_token"), LISTED),
    **dict.fromkeys(("get_server", "get_verification", "get_worker", "get_audit_row"), LISTED),
    **dict.fromkeys(("get_gate", "get_overview", "list_job_series", "list_tenant_activity"), FIGURES),
    **dict.fromkeys(("summarize_approvals", "summarize_jobs", "summarize_runs"), FIGURES),
    **dict.fromkeys(("list_jobs_briefly", "list_run_steps_briefly", "explain_jobs", "show_mail_html"), LOOKS),
    **dict.fromkeys(("sign_in", "sign_out", "watch"), "for browsers: signs in and out, and sends events to a page"),
    "cancel_group": COUNTED_FIRST,
    "retry_group": COUNTED_FIRST,
    "enqueue_jobs": "a program enqueues many jobs; a person one, by `atlas enqueue`",
    "enqueue_group": "a program enqueues a group; `atlas group` shows and steers it",
    "check_workflow": "`atlas workflow check FILE` checks a file without the API",
    "get_run_workflow": "`atlas workflow versions` and `diff` show every version",
    "get_workflow_schema": "for editors that complete workflows",
    "get_mail_route": "for the guided first run of the pages",
    "export_access_report": "`atlas audit report access --csv` writes the same rows",
}


def operations_called() -> set[str]:
    """The names that the command line calls as methods."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "cli").rglob("*.py"))
    return {name for tree in trees for name in _attributes(tree)}


def _attributes(tree: ast.AST) -> Iterator[str]:
    return (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def test_each_operation_has_a_command_or_a_reason_not_to(spec):
    operations = {
        operation["operationId"]
        for item in spec["paths"].values()
        for method, operation in item.items()
        if method in METHODS
    }
    missing = operations - operations_called()
    assert sorted(missing - set(EXCEPTIONS)) == []
    assert sorted(set(EXCEPTIONS) - missing) == []
