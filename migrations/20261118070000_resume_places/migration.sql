-- What a claim says to a worker that goes on where its last claim ended.
alter type turn_kind add value 'slow';   -- many index entries of claimed jobs stand before those that are ready
alter type turn_kind add value 'place';  -- start_within: when the newest claimed job of this tenant, type and priority (attempt_count) was created
