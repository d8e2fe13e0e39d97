"""Files and folders that are complete or absent, the journal of a study, and the log of its commands."""
