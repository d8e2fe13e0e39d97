"""The interleaved design: blocks whose arms are all up together and loaded in turn, slice by slice."""
