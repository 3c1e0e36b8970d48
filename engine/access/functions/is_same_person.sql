-- Four eyes: whether two subjects of a tenant count as one person. They do if the tokens that either goes back to share one: the
-- tokens of a subject, those they were created with, other tokens of the subjects of these, and so on up. So a maker and what it
-- made count as one in both directions, and so do two tokens that one token made, over any number of tokens in between.
-- Tokens that were revoked or have expired count too. It runs as the owner of the tables: the tokens of operators, who create
-- tokens for tenants, do not exist for a tenant's transaction. Called by engine/workflows/sql/decide_approval.sql.
create or replace function is_same_person(p_tenant_id uuid, p_one text, p_other text) returns boolean
language sql stable security definer
set search_path from current as $$
  with recursive line as (
    select p.side, p.subject, null::uuid as id, null::uuid as made_with
    from (values (1, p_one), (2, p_other)) p(side, subject)
    union
    select l.side, t.subject, t.id, t.made_with
    from line l
    join api_tokens t on t.id = l.made_with
      or (t.subject = l.subject and (t.tenant_id is null or t.tenant_id = p_tenant_id))
  )
  select exists (
    select from line a
    join line b on b.side = 2 and (b.subject = a.subject or b.id = a.id)
    where a.side = 1);
$$;
