//! `dynoload`: the load engine.
fn main() {}
