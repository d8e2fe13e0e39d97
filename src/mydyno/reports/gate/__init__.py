"""The result of `mydyno gate`: one file per format. Each is made from a GateResult alone."""
