"""What runs get servers, load programs and samplers from: private servers, an external server, client hosts."""
