"""From a study's saved samples to its summary: windows, values, effects, sentences. Reads the folder, nothing else."""
