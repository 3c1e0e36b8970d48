"""Groups of roles that the routes name."""

# Operators act for all tenants; the others belong to one, except auditors, who may belong to none and then read all.
MANAGERS = ("operator", "tenant_admin")
READERS = ("operator", "tenant_admin", "auditor")
JOB_MAKERS = ("operator", "tenant_admin", "enqueuer")
JOB_READERS = ("operator", "tenant_admin", "enqueuer", "auditor")
PEOPLE = ("operator", "tenant_admin", "enqueuer", "auditor")
INSTALLATION = ("operator",)
