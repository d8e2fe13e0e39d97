"""Several studies together: compared, and over time.

Runs of different studies are never one block. What is compared are effects, each relative to its own study's control.
"""
