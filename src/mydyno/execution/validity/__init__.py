"""What makes a run or a load level invalid, decided without looking at the outcome."""
