-- The newest id that a part of history may hold: lists read the parts in this order, and few of them.
create table history_bounds (
  part   text primary key,
  max_id uuid not null
);
