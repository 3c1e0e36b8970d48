"""The demo of a new installation: a tenant, example definitions and workflows, a few jobs."""

from atlas.actors import Actor
from atlas.cli.examples import load_examples
from atlas.db.pool import Connection
from atlas.engine.jobs import NewJob, enqueue, enqueue_definition
from atlas.engine.tenants import add_tenant, find_tenant
from atlas.engine.workflows.declared.examples import load_examples as load_workflows
from atlas.errors import NotFound

SLUG = "demo"


async def load_demo(conn: Connection, *, actor: Actor) -> None:
    """Load the examples, and make the demo tenant and its jobs unless the tenant exists."""
    await load_examples(conn, actor=actor)
    await load_workflows(conn, actor=actor)
    try:
        await find_tenant(conn, SLUG)
        return
    except NotFound:
        pass
    async with conn.transaction():
        tenant = await add_tenant(conn, slug=SLUG, name="Demo", timezone="Europe/Berlin", actor=actor)
        mail = {"to": "dana@example.com", "subject": "Welcome to Atlas", "text": "This mail is in the outbox."}
        await enqueue(conn, NewJob("EMAIL_SEND", mail, tenant.id), actor=actor)
        await enqueue_definition(conn, "sync-dropbox", {"provider_id": "demo"}, actor=actor, tenant_id=tenant.id)
