//! Which of a host's addresses the load is sent to.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::error::Error;

/// The address of --host at which something listens, as the control connection chooses it; the first if none does.
///
/// # Errors
/// When the name has no address.
pub fn resolve(host: &str, port: u16, timeout: Duration) -> Result<SocketAddr, Error> {
    let unknown = |cause: String| Error::User(format!("--host '{host}' has no address: {cause}; check the name"));
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|error| unknown(error.to_string()))?;
    choose(&found.collect::<Vec<_>>(), timeout).ok_or_else(|| unknown("the name has no address".into()))
}

fn choose(addresses: &[SocketAddr], timeout: Duration) -> Option<SocketAddr> {
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, timeout).is_ok();
    let several = (addresses.len() > 1).then(|| addresses.iter().find(answers)).flatten();
    several.or(addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_load_goes_to_the_address_that_answers() {
        let timeout = Duration::from_secs(5);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = server.local_addr().unwrap();
        let refusing: SocketAddr = ("127.0.0.2".parse::<std::net::IpAddr>().unwrap(), open.port()).into();
        assert_eq!(choose(&[refusing, open], timeout), Some(open));
        assert_eq!(choose(&[open, refusing], timeout), Some(open));
        assert_eq!(
            choose(&[refusing], timeout),
            Some(refusing),
            "its error is the connection's"
        );
        assert_eq!(choose(&[], timeout), None);
    }
}
