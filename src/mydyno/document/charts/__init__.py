"""Charts as compact SVG text: one file per kind. They carry classes; report.css has the colours."""
