-- An inbound hook -> signed with another secret, unless it was rotated since it was read. Called by engine/webhooks/signing_secrets.py. SQL, because the
-- guard compares bytes.
update atlas.inbound_hooks
set key_id     = :key_id,
    nonce      = :nonce,
    ciphertext = :ciphertext
where id = :id
  and nonce = :old_nonce
returning id;
