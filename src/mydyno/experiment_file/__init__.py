"""Experiment files: TOML with inheritance, factors and overrides, checked as a whole and made an Experiment."""
