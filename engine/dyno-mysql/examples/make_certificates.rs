//! Makes certificates for the TLS tests: `cargo run -p dyno-mysql --example make_certificates -- DIRECTORY`.
//!
//! Writes an authority (ca.pem), a server's certificate for "localhost" and for no address (server-cert.pem,
//! server-key.pem), and a client's (client-cert.pem, client-key.pem).

use std::error::Error;
use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: make_certificates DIRECTORY")?;
    let directory = Path::new(&directory);
    fs::create_dir_all(directory)?;

    let mut authority = named("mydyno test authority", vec![])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let authority = authority.self_signed(&authority_key)?;
    fs::write(directory.join("ca.pem"), authority.pem())?;

    for (name, usage) in [
        ("server", ExtendedKeyUsagePurpose::ServerAuth),
        ("client", ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let mut params = named(&format!("mydyno test {name}"), vec!["localhost".into()])?;
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority, &authority_key)?;
        fs::write(directory.join(format!("{name}-cert.pem")), certificate.pem())?;
        fs::write(directory.join(format!("{name}-key.pem")), key.serialize_pem())?;
    }
    Ok(())
}

fn named(name: &str, names: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
