-- The personal values behind commitments. Across tenants: a commitment is known only to who may read its event.
select commitment, value
from audit_private
where commitment = any (:commitments::bytea[]);
