"""Charts as compact SVG text: one file per kind. They carry classes, not colours: report.css gives light, dark and print."""
