-- jobs_children_by_id begins with the same column, and serves what this one served.
drop index if exists jobs_children;
