-- A version of a declared workflow. Looks across tenants: the run that keeps it is the caller's own.
select document
from workflows
where id = :id;
