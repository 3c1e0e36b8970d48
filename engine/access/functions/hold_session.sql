-- Whether a session is valid now. Its row is held until the transaction ends, so that an end at the same moment comes before or after.
-- It runs as the owner of the tables: a tenant's transaction sees no sessions. Called by engine/access/sql/hold_session.sql.
create or replace function hold_session(p_id uuid) returns boolean language plpgsql security definer
set search_path from current as $$
begin
  return (
    select count(*) > 0
    from (
      select from sessions s
      where s.id = p_id
        and not s.is_link
        and s.ended_at is null
        and s.expires_at > clock_timestamp()
      for share) held);
end $$;
