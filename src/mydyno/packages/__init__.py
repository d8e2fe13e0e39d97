"""Programs and libraries that mydyno needs, fetched by the machine's own package clients into the cache."""
