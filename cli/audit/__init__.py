"""`atlas audit`: reads, verifies, proves and prunes the audit log."""

from atlas.cli.command_table import ModuleGroup

__all__ = ["app"]

app = ModuleGroup(
    "atlas.cli.audit",
    {
        "tail": "export:tail",
        "export": "export:export_log",
        "verify": "verify:verify_log",
        "proof": "verify:proof",
        "report": "report:app",
        "forward": "forward:forward_log",
        "erase": "maintain:erase_subject",
        "archive": "archive:archive_log",
        "prune": "maintain:prune_log",
        "new-epoch": "maintain:begin_epoch",
    },
    help="The audit log of all changes: read it, verify it, prove it.",
)
