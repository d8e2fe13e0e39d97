"""Pages over saved studies and the one that runs, for a browser on this host.

They only read, but for the buttons that stop a study and, with --allow-run, start one.
"""
