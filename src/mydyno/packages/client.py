"""What package clients share: the user's own settings (proxies, Java), which children otherwise do not inherit."""

from __future__ import annotations

import os

NAMES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
JAVA_NAMES = ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "MAVEN_OPTS", "MAVEN_ARGS", *NAMES)
HASH_HINT = "retry; if it differs again, the registry serves another file"
"""Where a downloaded file does not have its hash."""


def client_environment(names: tuple[str, ...] = NAMES) -> dict[str, str]:
    """The given environment variables that are set, with their values."""
    return {name: os.environ[name] for name in names if name in os.environ}
