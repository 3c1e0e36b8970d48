-- The subjects that act for the whole installation, with a token that belongs to no tenant.
select distinct subject
from atlas.api_tokens
where tenant_id is null;
