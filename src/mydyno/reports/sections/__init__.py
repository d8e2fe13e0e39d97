"""The sections of the HTML report, one file each: a study in, ready markup out."""
