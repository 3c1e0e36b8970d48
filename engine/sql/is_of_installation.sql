-- Whether a subject acts for the whole installation, with a token that belongs to no tenant.
select exists (
  select
  from atlas.api_tokens
  where tenant_id is null
    and subject = :subject);
