"""The design "blocks": one run after another, each with fresh servers of one arm."""
