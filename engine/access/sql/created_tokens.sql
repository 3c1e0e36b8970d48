-- The tokens that were created with one of these, revoked ones too. A token is made once, so that there is no circle.
-- Called by engine/access/tokens.py. SQL, because it follows the statement that revokes them, in the same snapshot rules.
select id
from atlas.api_tokens
where made_with = any (:creators::uuid[]);
