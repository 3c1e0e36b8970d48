-- Personal values that are not what was committed to.
select field, encode(commitment, 'hex') as commitment
from audit_private
where sha256(salt || convert_to(value, 'UTF8')) <> commitment
limit 100;
