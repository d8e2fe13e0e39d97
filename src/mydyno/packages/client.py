"""The user's own settings of package clients (proxies, Java), which children otherwise do not inherit."""

from __future__ import annotations

import os

NAMES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
JAVA_NAMES = ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "MAVEN_OPTS", "MAVEN_ARGS", *NAMES)


def client_environment(names: tuple[str, ...] = NAMES) -> dict[str, str]:
    """Those of the variables that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}
