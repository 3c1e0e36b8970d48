-- nothing -> a rule. No row: there is a rule of that label.
insert into atlas.policy_rules (id, tenant_id, label, effect, workflow, except_workflows, spend_above_cents, spend_per_day_cents, runs_per_day,
  created_by)
values (:id, :tenant_id, :label, :effect::text::atlas.policy_effect, :workflow, :except_workflows::text[], :spend_above_cents,
  :spend_per_day_cents, :runs_per_day, :created_by)
on conflict on constraint policy_rules_label do nothing
returning id;
