"""Analyses, one file or folder per idea: what is computed of a study, what is said and what is drawn of it.

The type of what one stores is in model/stored/. None imports another, and nothing but the list in catalogue.py imports
one: where something else must know a fact, it reads the record in summary.json.
"""
