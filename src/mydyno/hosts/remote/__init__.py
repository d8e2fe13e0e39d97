"""Other hosts, by SSH."""
