"""Comparisons and histories of studies on a terminal, as Markdown and as self-contained pages.

`comparison_page` and `history_page` return documents of HTML, which `pages` frames; the typed data are made in
results/across.
"""
