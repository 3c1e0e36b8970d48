-- The personal values behind commitments, with what is needed to check them.
select encode(commitment, 'hex') as commitment, field, encode(salt, 'hex') as salt, value
from audit_private
where commitment = any (:commitments::bytea[]);
