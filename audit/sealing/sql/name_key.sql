-- An event names the key that signs the newest epoch, unless one does already. SQL, because a function checks and writes it.
select atlas.audit_name_key(:key);
