-- What a part of history holds of each tenant: lists of a tenant read only the parts that hold jobs of it, and a drop need not count.
-- Numbers are null where jobs came into the part without being counted.
create table history_contents (
  part      text not null,
  tenant_id uuid not null,
  min_id    uuid not null,
  max_id    uuid not null,
  jobs      bigint,
  failed    bigint,
  canceled  bigint,
  attempts  bigint,
  steps     bigint,
  primary key (part, tenant_id)
);

-- The oldest id that a part may hold; null: not known. A job is looked for in the parts whose bounds hold its id.
alter table history_bounds add column min_id uuid;

-- Whether a move made the change and counted it.
alter table history_changes add column is_move boolean not null default false;
