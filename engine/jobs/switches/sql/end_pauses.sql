-- Ends the pauses whose time is over. SQL, because a function does it.
select atlas.end_pauses();
