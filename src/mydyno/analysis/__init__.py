"""Analyses, one file per idea: what is stored of a study, what is computed, what is said and what is drawn of it.

None imports another, and nothing but the list in catalogue.py imports one: where something else must know a fact, it
reads the record in summary.json.
"""
