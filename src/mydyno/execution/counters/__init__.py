"""Counters on a few servers during a slice: CPU profiles, waits, events of the kernel."""
