"""`atlas audit`: reads, verifies, proves and prunes the audit log."""

from atlas.cli.command_table import ModuleGroup

__all__ = ["app"]

app = ModuleGroup(
    "atlas.cli.audit",
    {
        "tail": "tail:tail",
        "export": "export:export_log",
        "verify": "verify:verify_log",
        "proof": "verify:proof",
        "status": "seals:show_status",
        "seals": "seals:show_seals",
        "checkpoints": "seals:show_checkpoints",
        "key": "seals:show_key",
        "verifications": "seals:show_verifications",
        "report": "report:app",
        "forward": "forward:forward_log",
        "erase": "maintain:erase_subject",
        "archive": "archive:archive_log",
        "prune": "maintain:prune_log",
        "new-epoch": "maintain:begin_epoch",
    },
    help="The audit log of all changes: read it, verify it, prove it.",
)
