"""Comparisons and histories of studies on a terminal, as Markdown and as self-contained pages.

`comparison_page` and `history_page` have documents of HTML, `pages` their frame; the typed data are made in results/across.
"""
