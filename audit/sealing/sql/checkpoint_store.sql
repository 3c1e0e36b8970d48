-- A signed note; storing it again after a crash changes nothing. SQL, because sealing is a hot verb.
insert into atlas.audit_checkpoint (size, key_name, epoch, note, signed_at)
values (:size, :key_name, :epoch, :note, :signed_at)
on conflict do nothing;
