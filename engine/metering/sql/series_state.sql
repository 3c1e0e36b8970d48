-- The database's time, until when the meter has read the audit log, and the bounds of the buckets of times. Called by
-- engine/metering/series.py. SQL, because it is the database's clock, and a function gives the bounds.
select clock_timestamp() as now, atlas.duration_bounds() as bounds,
  (select (value->>'read_until')::timestamptz from atlas.system_state where key = 'usage_meter') as metered_until;
