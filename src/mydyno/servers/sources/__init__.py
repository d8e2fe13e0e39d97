"""One file per way to get a server that mydyno does not find on the host."""
