//! `dynoload`: the load engine.

fn main() {
    std::process::exit(i32::from(dyno_load::cli::main() as u8));
}
