#!/bin/sh
# Run once by the image of PostgreSQL, for a new database: the login that installs Atlas, and the one of its programs.
set -eu
psql --set ON_ERROR_STOP=1 --set password="$POSTGRES_PASSWORD" --username postgres --dbname "$POSTGRES_DB" <<'SQL'
create role atlas_install login createrole password :'password';
create schema atlas authorization atlas_install;
create role atlas_app login password :'password';
-- `atlas migrate` would make these roles; made here, they can be granted to the programs before it runs.
set role atlas_install;
create role atlas_engine nologin;
create role atlas_tenant nologin;
grant atlas_engine, atlas_tenant to atlas_app;
grant pg_read_all_stats to atlas_engine;
SQL
