"""Networks of a host: namespaces, links, shaping, cards, ports, certificates, timed transfers."""
