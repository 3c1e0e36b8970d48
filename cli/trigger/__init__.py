"""`atlas trigger`: schedules and events that start jobs and workflows."""

from atlas.cli.command_table import ModuleGroup

__all__ = ["app"]

app = ModuleGroup(
    "atlas.cli.trigger",
    {
        "add": "change:add",
        "edit": "change:edit",
        "remove": "change:remove",
        "list": "show:show",
        "show": "show:show_one",
        "fire": "change:fire",
        "preview": "show:show_times",
        "fires": "show:show_fires",
    },
    help="Start jobs and workflows on a schedule or on events.",
)
