"""`atlas audit`: reads, verifies, proves and keeps the account."""

import typer

from atlas.cli.audit import export, maintain, verify

app = typer.Typer(
    help="The account of what happened: read it, verify it, prove it.", no_args_is_help=True, add_completion=False
)
app.command("tail")(export.tail)
app.command("export")(export.export_account)
app.command("verify")(verify.verify_account)
app.command("proof")(verify.proof)
app.command("erase")(maintain.erase_subject)
app.command("prune")(maintain.prune_account)
app.command("new-epoch")(maintain.begin_epoch)
