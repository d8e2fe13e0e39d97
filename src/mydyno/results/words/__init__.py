"""The short answer of a study, its scope, and what would improve it, in words."""
