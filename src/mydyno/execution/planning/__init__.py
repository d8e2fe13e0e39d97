"""Before a study starts: design, blocks, cycles and time; what it needs and changes; the plan in words."""
