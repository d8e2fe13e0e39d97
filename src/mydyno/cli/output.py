"""What commands print on stdout for programs."""

from __future__ import annotations

import json
import sys


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, indent=1, default=str)
    print()
