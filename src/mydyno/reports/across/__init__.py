"""Comparisons and histories of studies on a terminal, as Markdown and as self-contained pages.

`comparison_page`, `arms_page` and `history_page` return HTML text; the typed data are made in results/across.
"""
