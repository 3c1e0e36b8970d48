-- All definitions, disabled ones too. Called by engine/quotas.py.
select count(*)::int
from atlas.job_definitions;
