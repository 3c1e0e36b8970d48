-- The smallest id that could have been made this long ago. Only jobs with smaller ids than that of two hours ago are moved into history; so an enqueue that
-- brings a greater id than that of an hour ago need not look there, and the key of `jobs` alone says whether the id is taken.
-- Called by enqueue_many and move_to_history, as a part of their statements.
create or replace function history_horizon(p_hours int) returns uuid language sql stable parallel safe
return (encode(int8send((date_part('epoch', statement_timestamp()) * 1000)::bigint - p_hours * 3600000::bigint << 16), 'hex') || '0000000000000000')::uuid;
