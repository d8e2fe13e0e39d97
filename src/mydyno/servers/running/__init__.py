"""The kinds of running servers: private mysqld and memcached, external; base.py is what they have in common."""
