"""Pure functions, numbers in and numbers out: paired comparisons, exact tests, steady state, noise, planning."""
