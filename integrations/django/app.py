"""Loads a Django project into a worker: `atlas worker --all --app atlas.integrations.django.app`.

Importing it sets Django up, registers the hooks around jobs, and imports the module `jobs` of every installed app.
"""

import django
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from atlas.errors import SettingsError
from atlas.integrations.django.connection_hooks import register_hooks

try:
    django.setup()
except ImproperlyConfigured as error:
    raise SettingsError(f"Django is not set up: {error}", remedy="Set DJANGO_SETTINGS_MODULE.") from error

register_hooks()
autodiscover_modules("jobs")
