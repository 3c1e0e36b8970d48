-- Outside of a transaction.
-- Effects by the key that their provider got, however old: a reconciliation looks for entries of the provider that no newer effect explains.
create index concurrently effects_key on effects using hash (key);
