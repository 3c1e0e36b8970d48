-- Both only grow. So the newest version of a row is the last entry, and is read first, however many versions a held xmin horizon keeps.
create index tenant_shares_newest on tenant_shares (tenant_id, used);
create index share_clock_newest on share_clock (at);
