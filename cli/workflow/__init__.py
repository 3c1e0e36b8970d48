"""`atlas workflow`: ask for runs, show them, steer them, decide their approvals."""

from atlas.cli.command_table import ModuleGroup

__all__ = ["app"]

app = ModuleGroup(
    "atlas.cli.workflow",
    {
        "run": "request:run",
        "list": "runs:show_list",
        "requests": "request:requests",
        "show": "runs:show",
        "check": "workflows:check",
        "dry-run": "dry_run:command",
        "signal": "steer:signal",
        "approve": "approvals:approve",
        "approvals": "approvals:approvals",
        "cancel": "steer:cancel",
        "retry": "steer:retry",
        "fork": "steer:fork",
        "save": "workflows:save",
        "versions": "versions:versions",
        "diff": "versions:diff",
        "rollback": "versions:rollback",
        "enable": "workflows:enable",
        "disable": "workflows:disable",
        "policy": "policy:app",
    },
    help="Request workflow runs, inspect and control them.",
)
