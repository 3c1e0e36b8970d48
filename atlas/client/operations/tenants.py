"""Tenants, tokens, grants, hosts and command definitions."""

# mypy: disable-error-code="empty-body"

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from atlas.client.methods import listing, operation
from atlas.client.route import ApiCaller, Id
from atlas.models.grants import EnqueueGrant, GrantList
from atlas.models.hosts import CommandDefinition, Host, ServerInstance
from atlas.models.tenants import (
    CreatedToken,
    CurrentSession,
    OpenSession,
    RevokedToken,
    Tenant,
    TenantRemoval,
    Token,
)


class TenantOperations(ApiCaller):
    """Manage customers, credentials, machines and the commands that jobs may run."""

    @listing("/tenants", by_tenant=False)
    def list_tenants(self) -> Tenant:
        """The tenants, by slug; a token that belongs to one sees that one."""

    @operation("GET", "/tenants/{slug_or_id}", by_tenant=False)
    def get_tenant(self, slug_or_id: str) -> Tenant:
        """One tenant."""

    @operation("POST", "/tenants", by_tenant=False)
    def create_tenant(self, slug: str, name: str, *, timezone: str = ...) -> Tenant:
        """Add a tenant."""

    @operation("PATCH", "/tenants/{slug_or_id}", by_tenant=False)
    def edit_tenant(
        self,
        slug_or_id: str,
        *,
        name: str = ...,
        timezone: str = ...,
        limits: Mapping[str, Any] = ...,
        retention: Mapping[str, Any] = ...,
        if_match: str = ...,
    ) -> Tenant:
        """Change a tenant. `limits` and `retention` are replaced as a whole; what is not given stays as it is."""

    @operation("DELETE", "/tenants/{slug_or_id}", by_tenant=False, keyed=False)
    def remove_tenant(
        self, slug_or_id: str, *, cancel: bool = ..., reason: str | None = ..., if_match: str = ...
    ) -> TenantRemoval:
        """Remove a tenant and everything that belongs to it, for good. Repeat it to see how far it is."""

    @listing("/tokens")
    def list_tokens(self) -> Token:
        """The tokens, oldest first, without their secrets."""

    @operation("GET", "/tokens/{token_id}")
    def get_token(self, token_id: Id) -> Token:
        """One token, without its secret."""

    @operation("POST", "/tokens", keyed=False)
    def create_token(
        self,
        subject: str,
        role: str,
        *,
        scopes: Mapping[str, Any] = ...,
        expires_at: datetime | None = ...,
    ) -> CreatedToken:
        """Make a token. The result has it in clear, once."""

    @operation("DELETE", "/tokens/{token_id}")
    def revoke_token(self, token_id: Id, *, with_created: bool = ...) -> RevokedToken:
        """Revoke a token for good, with every session that was opened with it; or also what was created with it."""

    @listing("/grants")
    def list_grants(self, *, login: str | None = ...) -> EnqueueGrant:
        """What logins of other applications may enqueue with the SQL function."""

    @operation("POST", "/grants")
    def create_grants(self, login: str, *, tenants: Sequence[str], job_types: Sequence[str]) -> GrantList:
        """Let a login enqueue each of these job types for each of these tenants; for operators."""

    @operation("DELETE", "/grants/{grant_id}")
    def revoke_grant(self, grant_id: Id) -> None:
        """Take a grant away from a login; for operators."""

    @operation("GET", "/session", by_tenant=False)
    def get_session(self) -> CurrentSession:
        """Whose token this is, its role and its tenant."""

    @listing("/sessions")
    def list_sessions(self) -> OpenSession:
        """Who is signed in, newest first."""

    @operation("DELETE", "/sessions/{session_id}", keyed=False)
    def end_session(self, session_id: Id) -> None:
        """End a session of a page."""

    @listing("/hosts")
    def list_hosts(self) -> Host:
        """The hosts, oldest first, with the names of their servers."""

    @operation("GET", "/hosts/{host_id}")
    def get_host(self, host_id: Id) -> Host:
        """One host."""

    @operation("POST", "/hosts")
    def create_host(self, name: str) -> Host:
        """Add a host. It authenticates with a token of the role host."""

    @operation("PATCH", "/hosts/{host_id}")
    def edit_host(self, host_id: Id, *, is_active: bool = ..., name: str = ..., if_match: str = ...) -> Host:
        """Let a host fetch jobs, or not, or rename it."""

    @operation("DELETE", "/hosts/{host_id}")
    def remove_host(self, host_id: Id, *, if_match: str = ...) -> None:
        """Remove a host that has no servers and no queued or running jobs."""

    @listing("/hosts/{host_id}/instances")
    def list_servers(self, host_id: Id) -> ServerInstance:
        """The servers of a host, oldest first."""

    @operation("GET", "/hosts/{host_id}/instances/{instance_id}")
    def get_server(self, host_id: Id, instance_id: Id) -> ServerInstance:
        """One server of a host."""

    @operation("POST", "/hosts/{host_id}/instances")
    def create_server(self, host_id: Id, name: str) -> ServerInstance:
        """Add a server of a host."""

    # The host in the address is the one that the server is on, the other one is where it goes.
    @operation("PATCH", "/hosts/{of_host_id}/instances/{instance_id}")
    def edit_server(
        self, of_host_id: Id, instance_id: Id, *, name: str = ..., host_id: Id = ..., if_match: str = ...
    ) -> ServerInstance:
        """Rename a server, or move it and its queued jobs to another host."""

    @operation("DELETE", "/hosts/{host_id}/instances/{instance_id}")
    def remove_server(self, host_id: Id, instance_id: Id, *, if_match: str = ...) -> None:
        """Remove a server that has no queued or running jobs."""

    @listing("/admin/jobs/definitions", by_tenant=False)
    def list_definitions(self, *, active_only: bool = ...) -> CommandDefinition:
        """The commands that jobs may run, by key."""

    @operation("GET", "/admin/jobs/definitions/{key}", by_tenant=False)
    def get_definition(self, key: str) -> CommandDefinition:
        """One command, by its key or its id."""

    @operation("POST", "/admin/jobs/definitions", by_tenant=False)
    def create_definition(self, body: Mapping[str, Any]) -> CommandDefinition:
        """Allow a command; docs/commands.md has the fields."""

    @operation("PATCH", "/admin/jobs/definitions/{key}", by_tenant=False)
    def edit_definition(self, key: str, body: Mapping[str, Any], *, if_match: str = ...) -> CommandDefinition:
        """Change fields of a command; attempts that start afterwards use it."""

    @operation("DELETE", "/admin/jobs/definitions/{key}", by_tenant=False)
    def disable_definition(self, key: str, *, if_match: str = ...) -> CommandDefinition:
        """Disable a command: none of its jobs is enqueued or started any more."""
