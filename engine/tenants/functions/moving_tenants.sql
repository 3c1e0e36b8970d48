-- The tenants that are being moved to another installation: nothing of them changes here. Called by what acts on the rows of all tenants
-- because time passed, and by what people ask for.
create or replace function moving_tenants() returns uuid[] language plpgsql stable
set search_path from current as $$
begin
  return array(select id from tenants where moving_at is not null);
end $$;
