"""Executes a study: the study environment, one run, the probe. study.py has the order."""
