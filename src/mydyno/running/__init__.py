"""What a study does with its hands: the workbench, one run, the probe. study.py says in which order."""
