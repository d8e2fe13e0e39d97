"""Pages over saved studies and the one that runs, for a browser on this host. Read-only but for the stop button."""
