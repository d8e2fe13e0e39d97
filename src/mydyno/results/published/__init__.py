"""Published studies: their figures and conclusions, compared with this study's verdicts."""
