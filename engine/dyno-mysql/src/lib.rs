//! The MySQL client protocol without I/O: packets, authentication, prepared statements, compression, TLS.
