"""The numbers of each run, from samples (blocks.py) or slices (interleaved.py), and whether the host disturbed them."""
