"""One file per page: its routes."""
