-- The columns of an entity as one object; null where it does not exist. SQL, because a function finds the table of its kind.
select atlas.entity_values(:kind, :id, :tenant_id)::text;
