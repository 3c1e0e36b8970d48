"""`atlas audit`: reads, verifies, proves and keeps the account."""

import typer

from cli.audit import keeping, proving, reading

app = typer.Typer(
    help="The account of what happened: read it, verify it, prove it.", no_args_is_help=True, add_completion=False
)
app.command("tail")(reading.tail)
app.command("export")(reading.export_account)
app.command("verify")(proving.verify_account)
app.command("proof")(proving.proof)
app.command("erase")(keeping.erase_subject)
app.command("prune")(keeping.prune_account)
app.command("new-epoch")(keeping.begin_epoch)
