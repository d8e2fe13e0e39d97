//! `dynoprobe`: the sampler.

fn main() -> std::process::ExitCode {
    dyno_probe::cli::main()
}
