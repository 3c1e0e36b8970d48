-- How many members of a group there are, by status, wherever they are. In the snapshot of the statement that calls it, and planned apart from that: it reads every table of history,
-- which a look for groups that have ended must not do each second. Called by engine/jobs/sql/hold_ended_group.sql and engine/jobs/lists/sql/list_groups.sql.
create or replace function group_counts(p_group uuid) returns jsonb language plpgsql stable
set search_path from current as $$
begin
  return (
    select coalesce(jsonb_object_agg(c.status, c.count), '{}')
    from (select j.status::text, count(*) from jobs j where j.group_id = p_group group by j.status) c(status, count));
end $$;
