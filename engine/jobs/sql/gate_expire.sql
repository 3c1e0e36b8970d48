-- offline -> online where the time it was taken offline for is over.
select atlas_gate_expire();
