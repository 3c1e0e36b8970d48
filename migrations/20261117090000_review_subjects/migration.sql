-- Reviews are bound to what was judged: the workflow's definition and the rules, beside the input.

-- Of a review: the definition and the rules at the time of the request. Null for questions that a workflow asks.
alter table approvals add column subject jsonb;

-- Of a workflow in code: the digest of the module that defines it, as the last worker published it.
alter table workflows add column build text;
