-- The details of effects that hold a value equal to :subject, in any case -> a mark, each with EFFECT_DETAIL_ERASED among the events of its job. Without a tenant it
-- looks across all (operators). It reads every effect: no index has their details. SQL, because the change and its event are one statement.
with
erased as (
  update atlas.effects e
  set detail = '{"erased": true}'
  where (:tenant_id::uuid is null or e.tenant_id = :tenant_id)
    and e.detail <> '{}'
    and exists (
      select from jsonb_path_query(e.detail, '$.**') v
      where jsonb_typeof(v) = 'string' and lower(v #>> '{}') = lower(:subject))
  returning e as effect
),
-- one event for each
recorded as materialized (
  select atlas.record_effect(x.effect, 'EFFECT_DETAIL_ERASED', 'warn', :actor_type, :actor_id, '', :meta::text::jsonb) from erased x
)
select count(*)::int from recorded;
