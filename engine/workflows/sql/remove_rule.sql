-- A rule -> gone. Without a tenant it is one of those for everyone.
delete from atlas.policy_rules
where label = :label
  and tenant_id is not distinct from :tenant_id::uuid
returning id;
