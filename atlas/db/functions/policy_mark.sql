-- A digest of a policy as it is in the database and of the terms that it was created by: it differs as soon as either is changed.
-- Called by secure_policy, which keeps it as the policy's comment.
create or replace function policy_mark(p_policy oid, p_terms text) returns text language plpgsql stable
set search_path from current as $$
begin
  return (
    select md5(concat_ws(' | ', p_terms, p.polcmd, p.polpermissive,
      array(select r.rolname from pg_roles r where r.oid = any (p.polroles) order by r.rolname),
      pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)))
    from pg_policy p
    where p.oid = p_policy);
end $$;
