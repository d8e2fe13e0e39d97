"""Comparisons of studies and histories, in sentences."""
