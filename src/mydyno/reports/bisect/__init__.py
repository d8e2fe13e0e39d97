"""A bisection for people: terminal, Markdown, HTML. Its JSON is result.json."""
