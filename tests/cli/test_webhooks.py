"""`atlas webhooks`, `atlas hooks`: what people type, and what they see."""


async def test_a_webhook_is_added_seen_tested_and_removed(atlas):
    await atlas("tenant", "add", "acme")
    none = await atlas("webhooks", "list")
    events = ("--event", "job.failed", "--event", "run.*")
    added = await atlas("webhooks", "add", "https://shop.example/atlas", "--tenant", "acme", *events, "--json")
    webhook = added.document
    listed = await atlas("webhooks", "list", "--tenant", "acme")
    shown = await atlas("webhooks", "show", webhook["id"], "--json")
    edited = await atlas("webhooks", "edit", webhook["id"], "--event", "job.*", "--disable", "--json")
    enabled = await atlas("webhooks", "edit", webhook["id"], "--enable")
    tested = await atlas("webhooks", "test", webhook["id"], "--json")
    job = await atlas("jobs", "show", tested.document["job_id"], "--json")
    removed = await atlas("webhooks", "remove", webhook["id"])
    gone = await atlas("webhooks", "show", webhook["id"])
    wrong = await atlas("webhooks", "add", "https://shop.example", "--tenant", "acme", "--event", "job.exploded")

    assert none.stdout.startswith("There are no webhooks. Add one with `atlas webhooks add")
    assert webhook["secret"].startswith("whsec_")
    assert "job.failed, run.*" in listed.stdout
    assert "enabled" in listed.stdout
    assert shown.document == {name: value for name, value in webhook.items() if name != "secret"}
    assert (edited.document["events"], edited.document["is_enabled"]) == (["job.*"], False)
    assert enabled.stdout == f"Webhook {webhook['id']} updated. It is enabled.\n"
    assert job.document["job"]["job_type"] == "HTTP_CALL"
    assert removed.stdout == f"Webhook {webhook['id']} (https://shop.example/atlas) removed.\n"
    assert f"There is no webhook {webhook['id']}" in gone.refusal
    assert "events.0: is not one of job.created" in wrong.refusal


async def test_a_hook_is_added_listed_and_removed(atlas):
    await atlas("tenant", "add", "acme")
    added = await atlas("hooks", "add", "shop.paid", "--tenant", "acme", "--json")
    hook = added.document
    listed = await atlas("hooks", "list")
    removed = await atlas("hooks", "remove", hook["id"])

    assert hook["secret"].startswith("whsec_")
    assert hook["path"] in listed.stdout
    assert "shop.paid" in listed.stdout
    assert removed.stdout == f"Hook {hook['id']} ({hook['path']}) removed.\n"
