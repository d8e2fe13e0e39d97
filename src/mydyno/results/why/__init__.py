"""What accompanied an effect: costs, waits, times in the kernel, CPU profiles, utilisation; and which come first."""
