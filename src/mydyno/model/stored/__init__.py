"""What a study writes and what commands print: records, summary.json, log lines, and their schemas."""
