"""perf and bpftrace: whether they work here, how they are called, what they print."""
