"""`atlas effects`: the effects of jobs outside of the database."""

from atlas.cli.command_table import ModuleGroup

__all__ = ["app"]

app = ModuleGroup(
    "atlas.cli.effects",
    {
        "list": "ledger:list_effects",
        "show": "ledger:show_effect",
        "settle": "ledger:settle_effect",
        "reconcile": "reconcile:reconcile_effects",
        "reports": "ledger:list_reports",
    },
    help="Effects: calls of providers, and their outcomes.",
)
