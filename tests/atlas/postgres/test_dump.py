"""What a dump says about roles."""

import pytest

from atlas.postgres.dump import grantee

STATEMENTS = [
    ("GRANT USAGE ON SCHEMA atlas TO atlas_enqueuer;", "atlas_enqueuer"),
    ("GRANT INSERT(body),SELECT(id) ON TABLE atlas.audit_log TO atlas_engine;", "atlas_engine"),
    ('GRANT SELECT ON TABLE atlas.jobs TO "Ann\'s ""own"" role" WITH GRANT OPTION;', 'Ann\'s "own" role'),
    ("CREATE POLICY everyone ON atlas.jobs USING (true);", None),
    ("    execute format('GRANT USAGE ON SCHEMA atlas TO nobody;');", None),
]


@pytest.mark.parametrize(("line", "role"), STATEMENTS)
def test_the_role_of_a_grant_is_read(line, role):
    assert grantee(line) == role
