"""The login of Atlas's programs: it acts as the engine and as tenants, owns nothing, and cannot disable a trigger."""

from atlas.db.pool import Connection
from atlas.db.schema import role

_MAKE = """
do $$ begin
  if not exists (select from pg_roles where rolname = '{name}') then
    create role {name} {options};
  end if;
exception
  when duplicate_object or unique_violation then null;  -- another process created it at the same time
end $$"""


def login_statements() -> list[str]:
    """What an administrator runs so that programs need not log in as the owner of the tables."""
    login = role("app")
    return [f"create role {login} login password '…';", f"grant {role('engine')}, {role('tenant')} to {login};"]


async def make_login(conn: Connection) -> str:
    """Make the login of an embedded server, and return its name."""
    login = role("app")
    for name, options in ((role("engine"), "nologin"), (role("tenant"), "nologin"), (login, "login")):
        await conn.execute(_MAKE.format(name=name, options=options))
    if not await conn.fetchval("select pg_has_role($1, $2, 'member')", login, role("engine")):
        await conn.execute(f"grant {role('engine')}, {role('tenant')} to {login}")
    if not await conn.fetchval("select pg_has_role($1, 'pg_read_all_stats', 'member')", role("engine")):
        # What holds the xmin horizon may be a session of another login.
        await conn.execute(f"grant pg_read_all_stats to {role('engine')}")
    return login
