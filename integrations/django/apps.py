"""The Django app: `INSTALLED_APPS = [..., "atlas.integrations.django"]` adds the command `manage.py atlas`."""

from django.apps import AppConfig

from atlas.integrations.django.connection_hooks import register_hooks


class AtlasConfig(AppConfig):  # type: ignore[misc]  # Django brings no types
    """Registers the hooks around jobs in every process of the project."""

    name = "atlas.integrations.django"
    label = "atlas_jobs"
    verbose_name = "Atlas"

    def ready(self) -> None:
        """Register the hooks."""
        register_hooks()
