"""Finds the commit that made a server worse: `git bisect`, with a study for each commit."""
