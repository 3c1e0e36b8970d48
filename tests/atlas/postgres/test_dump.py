"""What a dump says about roles."""

import pytest

from atlas.postgres.dump import grantees

STATEMENTS = [
    ("GRANT USAGE ON SCHEMA atlas TO atlas_enqueuer;", ["atlas_enqueuer"]),
    ("GRANT INSERT(body),SELECT(id) ON TABLE atlas.audit_log TO atlas_engine;", ["atlas_engine"]),
    ('GRANT SELECT ON TABLE atlas.jobs TO "Ann\'s ""own"" role" WITH GRANT OPTION;', ['Ann\'s "own" role']),
    ("CREATE POLICY tenant_rows ON atlas.jobs TO atlas_tenant USING ((tenant_id = 1));", ["atlas_tenant"]),
    ('CREATE POLICY two ON atlas.jobs FOR SELECT TO a, "b c" WITH CHECK (true);', ["a", "b c"]),
    ("CREATE POLICY everyone ON atlas.jobs USING (true);", []),
    ("    execute format('GRANT USAGE ON SCHEMA atlas TO nobody;');", []),
]


@pytest.mark.parametrize(("line", "roles"), STATEMENTS)
def test_the_roles_of_grants_and_policies_are_read(line, roles):
    assert grantees(line) == roles
