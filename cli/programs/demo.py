"""The demo of a new installation: a tenant, example definitions, workflows and a trigger, a few jobs and events."""

from typing import Any

from atlas.actors import Actor
from atlas.cli.programs.examples import load_examples
from atlas.db.pool import Connection
from atlas.engine.admission import enqueue_definition
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import add_tenant, find_tenant
from atlas.engine.triggers.store import add_trigger
from atlas.engine.workflows.declared.examples import load_examples as load_workflows
from atlas.engine.workflows.events import publish_event
from atlas.errors import NotFound

SLUG = "demo"
PROVIDER = "0d9f3f0e-9d0c-4a6b-8c51-6f1f0e6f6a01"

# Starts a job of sync-dropbox for the first of the events below.
TRIGGER: dict[str, Any] = {
    "label": "Resync on folder change",
    "trigger_type": "event",
    "event_name": "provider.folder.updated",
    "definition_key": "sync-dropbox",
    "payload_template": {"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"},
    "dedupe_window_seconds": 120,
}
# The canonical events of an application that keeps and tags pictures; docs/scheduler.md describes each.
EVENTS: dict[str, dict[str, Any]] = {
    "provider.folder.updated": {"provider_id": PROVIDER, "folder_path": "/photos/2026"},
    "provider.connection.changed": {"provider_id": PROVIDER, "status": "connected"},
    "list.created": {"list_id": "holidays", "name": "Holidays"},
    "asset.ingested": {"asset_id": "img-0001", "provider_id": PROVIDER, "path": "/photos/2026/img-0001.jpg"},
    "images.ingest.completed": {"provider_id": PROVIDER, "count": 1},
    "tags.recomputed": {"model": "siglip", "assets": 1},
    "keyword.model.trained": {"model": "siglip", "keyword": "beach"},
}


async def load_demo(conn: Connection, *, actor: Actor) -> None:
    """Load the examples, and make the demo tenant and what it has unless the tenant exists."""
    await load_examples(conn, actor=actor)
    await load_workflows(conn, actor=actor)
    try:
        await find_tenant(conn, SLUG)
        return
    except NotFound:
        pass
    # The source tells them from the jobs of people: the web pages offer a guide until there are some.
    async with conn.transaction():
        tenant = await add_tenant(conn, slug=SLUG, name="Demo", timezone="Europe/Berlin", actor=actor)
        mail = {"to": "dana@example.com", "subject": "Welcome to Atlas", "text": "This mail is in the outbox."}
        await enqueue(conn, NewJob("EMAIL_SEND", mail, tenant.id, source="system"), actor=actor)
        for key in ("recompute-trained-tags", "recompute-zeroshot-tags", "train-keyword-models"):
            await enqueue_definition(conn, key, {"model": "siglip"}, actor=actor, tenant_id=tenant.id, source="system")
        await add_trigger(conn, tenant.id, TRIGGER, actor=actor)
        for name, context in EVENTS.items():
            await publish_event(conn, tenant.id, name, context, actor=actor)
