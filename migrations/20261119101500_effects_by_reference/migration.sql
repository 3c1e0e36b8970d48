-- Outside of a transaction.
-- Effects by the provider's reference, for entries without a key. By hash: a reference may be longer than an entry of a B-tree.
create index concurrently effects_reference on effects using hash (reference) where reference is not null;
