"""Executes a study: planning, environments, counters, the two designs, live.jsonl. ../study.py has the order."""
