-- The subjects that a token goes back to: who made it, who made the token that it was made with, and so on.
-- It looks across tenants: operators, who have none, make tokens for all of them.
with recursive makers as (
  select t.id, t.made_with, t.subject
  from atlas.api_tokens t
  where t.id = (select made_with from atlas.api_tokens where id = :id)
  union
  select t.id, t.made_with, t.subject
  from makers m
  join atlas.api_tokens t on t.id = m.made_with
)
select distinct subject
from makers;
