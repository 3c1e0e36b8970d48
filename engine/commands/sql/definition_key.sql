-- The key of the definition with this id.
select key from atlas.job_definitions where id = :id;
