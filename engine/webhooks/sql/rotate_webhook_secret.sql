-- A webhook -> signed with another secret, unless it was rotated since it was read. Called by engine/webhooks/signing_secrets.py. SQL, because the
-- guard compares bytes.
update atlas.webhooks
set key_id     = :key_id,
    nonce      = :nonce,
    ciphertext = :ciphertext,
    updated_at = clock_timestamp()
where id = :id
  and nonce = :old_nonce
returning id;
