-- Whether the session that a credential is created with is valid now; it is held until the transaction ends. Called by
-- engine/access/tokens.py. SQL, because Prisma calls no functions.
select atlas.hold_session(:id);
