"""live.jsonl: what a study does now and has done, a line a second."""
