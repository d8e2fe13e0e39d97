"""What a report consists of: a study as it is drawn, sections, tables, figures, charts and templates."""
