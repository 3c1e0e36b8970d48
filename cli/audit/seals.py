"""`atlas audit status`, `seals`, `checkpoints`, `key` and `verifications`: how far the log is sealed and checked."""

from atlas.bounds import MAX_PAGE_SIZE
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.facts import facts_table
from atlas.cli.terminal.output import Json, format_age, say, table
from atlas.cli.terminal.parameters import Limit, TenantFilter


def show_status(tenant: TenantFilter = None, json: Json = False) -> None:
    """Show how far the audit log is sealed, signed and verified."""
    document = dict(on_atlas(lambda atlas: atlas.get_audit_status(), tenant=tenant))
    say(document, facts_table(document), json=json)


def show_seals(tenant: TenantFilter = None, limit: Limit = 50, json: Json = False) -> None:
    """List the seals, newest first; of a tenant, those that hold rows of its own."""
    seals = on_atlas(lambda atlas: atlas.list_seals().page(limit=limit), tenant=tenant).items
    rows = [(seal.n, seal.rows, seal.size, format_age(seal.sealed_at), seal.root) for seal in seals]
    text = table(("SEAL", "ROWS", "TREE", "AGE", "ROOT"), rows) if rows else "Nothing is sealed yet."
    say({"seals": [dict(seal) for seal in seals]}, text, json=json)


def show_checkpoints(limit: Limit = 50, json: Json = False) -> None:
    """List the signed checkpoints, newest first."""
    checkpoints = on_atlas(lambda atlas: atlas.list_checkpoints().page(limit=limit)).items
    rows = [(signed.size, signed.key_name, format_age(signed.signed_at), signed.note) for signed in checkpoints]
    text = table(("TREE", "KEY", "AGE", "NOTE"), rows) if rows else "No checkpoint is signed yet."
    say({"checkpoints": [dict(signed) for signed in checkpoints]}, text, json=json)


def show_key(json: Json = False) -> None:
    """Print the public keys that verify checkpoints and proofs, the newest first. Keep a copy outside of Atlas."""
    keys = on_atlas(lambda atlas: atlas.get_audit_key())
    say({"keys": keys.splitlines()}, keys.rstrip(), json=json)


def show_verifications(tenant: TenantFilter = None, json: Json = False) -> None:
    """List the last verifications that the pages or the API started, newest first."""
    verifications = on_atlas(lambda atlas: atlas.list_verifications().page(limit=MAX_PAGE_SIZE), tenant=tenant).items
    rows = [
        (run.status, f"{run.done} of {run.total}", len(run.findings), run.started_by, format_age(run.updated_at))
        for run in verifications
    ]
    text = table(("STATUS", "ROWS", "FINDINGS", "BY", "AGE"), rows) if rows else "Nothing was verified yet."
    say({"verifications": [dict(run) for run in verifications]}, text, json=json)
