-- Keeps a piece of what a tenant's audit log held elsewhere. Called by audit/exports/moved.py. SQL, because Prisma would read it back.
insert into atlas.audit_moved (tenant_id, part, piece, lines)
values (:tenant_id, :part, :piece, :lines);
