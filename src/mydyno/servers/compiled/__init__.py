"""Servers built from source: checked out, built once per commit and recipe into the cache, and known by their files."""
