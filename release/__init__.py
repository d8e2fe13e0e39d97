"""Makes the files of a release; `release/build --help` lists the options."""
