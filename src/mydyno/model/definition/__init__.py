"""What an experiment says: its types, reading and validating TOML, and the plan that follows from it."""
