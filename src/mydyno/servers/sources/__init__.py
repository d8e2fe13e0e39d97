"""One file per source of servers that mydyno downloads."""
