-- The subjects that a token descends from: who created it, who created the token that it was created with, and so on.
-- It reads across tenants: operators, who have none, create tokens for all of them.
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
