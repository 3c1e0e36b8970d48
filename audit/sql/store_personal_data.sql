-- Stores personal values, in the transaction of the caller. SQL, because a function stores them.
select atlas.store_personal_data(:tenant_id, :rows::text::jsonb);
