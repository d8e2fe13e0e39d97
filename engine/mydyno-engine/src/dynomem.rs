//! `dynomem`: sustained memory bandwidth.

fn main() -> std::process::ExitCode {
    dyno_memory::main()
}
