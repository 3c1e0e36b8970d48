"""Grants over HTTP: operators decide what a login may enqueue, and tenants see their own."""

import csv
import io
from datetime import UTC, datetime
from uuid import uuid4

from tests.cli.conftest import MAKE_GUEST

GRANT = {"login": "atlas_guest", "tenants": ["acme", "other"], "job_types": ["invoice.*"]}


async def test_operators_grant_and_revoke_and_tenants_see_their_own(world, owner):
    await owner.execute(MAKE_GUEST)
    await owner.execute("revoke atlas_enqueuer from atlas_guest")
    async with world.client("all", "operator") as operator, world.client("acme", "tenant_admin") as admin:
        refused = await operator.post("/grants", json=GRANT)
        assert refused.status_code == 409
        assert "select atlas.grant_enqueue('atlas_guest')" in refused.json()["remedy"]
        await owner.execute("select atlas.grant_enqueue('atlas_guest')")
        missing = await operator.post("/grants", json={**GRANT, "login": f"no{uuid4().hex}"})
        of_atlas = await operator.post("/grants", json={**GRANT, "tenants": ["system"]})
        granted = await operator.post("/grants", json=GRANT)
        again = await operator.post("/grants", json=GRANT)
        by_admin = await admin.post("/grants", json=GRANT)
        seen = (await admin.get("/grants")).json()["items"]
        page = (await operator.get("/grants?limit=1")).json()
        rest = (await operator.get(f"/grants?limit=1&login=atlas_guest&cursor={page['next_cursor']}")).json()
        month = f"{datetime.now(UTC):%Y-%m}"
        report = await admin.get(f"/audit/reports/access/export?month={month}")
        assert f'filename="access_acme_{month}.csv"' in report.headers["content-disposition"]

        assert (missing.status_code, of_atlas.status_code, by_admin.status_code) == (404, 422, 403)
        assert (granted.status_code, again.json()) == (201, granted.json())
        assert [(one["login"], one["tenant_id"], one["job_type"]) for one in seen] == [
            ("atlas_guest", str(world.acme.id), "invoice.*")
        ]
        assert {one["tenant_id"] for one in [*page["items"], *rest["items"]]} == {
            str(world.acme.id),
            str(world.other.id),
        }
        rows = list(csv.DictReader(io.StringIO(report.text)))
        assert report.headers["content-type"].startswith("text/csv")
        assert [row["scope"] for row in rows if row["kind"] == "grant"] == ["invoice.*"]

        [mine] = seen
        assert (await admin.delete(f"/grants/{mine['id']}")).status_code == 403
        assert (await operator.delete(f"/grants/{mine['id']}")).status_code == 204
        assert (await operator.delete(f"/grants/{mine['id']}")).status_code == 404
        assert (await admin.get("/grants")).json()["items"] == []
    events = await owner.fetch(
        "select action, actor_id from atlas.audit_log where entity_type = 'enqueue_grant' and tenant_id = $1 order by id",
        world.acme.id,
    )
    assert [event["action"] for event in events] == ["ENQUEUE_GRANTED", "ENQUEUE_REVOKED"]
    assert len({event["actor_id"] for event in events}) == 1
