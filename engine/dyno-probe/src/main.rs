//! `dynoprobe`: the sampler.
fn main() {}
