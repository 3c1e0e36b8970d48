-- A new tenant. No row comes back where the slug is taken.
insert into atlas.tenants (id, slug, name, timezone)
values (:id, :slug, :name, :timezone)
on conflict (slug) do nothing
returning id, slug, name, timezone, limits, retention, created_at;
