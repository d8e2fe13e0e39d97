"""What is made of a whole study, by all analyses together: summary.json, the answer, the comparison with others."""
