"""Several studies together: compared, over time, and how well their intervals are calibrated.

Runs of different studies are never one block. What is compared are effects, each relative to its own study's control.
"""
