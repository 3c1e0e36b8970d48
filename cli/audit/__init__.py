"""`atlas audit`: reads, verifies, proves and prunes the audit log."""

import typer

from atlas.cli.audit import export, maintain, verify

app = typer.Typer(
    help="The audit log of all changes: read it, verify it, prove it.", no_args_is_help=True, add_completion=False
)
app.command("tail")(export.tail)
app.command("export")(export.export_log)
app.command("verify")(verify.verify_log)
app.command("proof")(verify.proof)
app.command("erase")(maintain.erase_subject)
app.command("prune")(maintain.prune_log)
app.command("new-epoch")(maintain.begin_epoch)
