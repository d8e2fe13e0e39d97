//! The connection phase: greeting, TLS request, authentication, initial statements.

use crate::auth::{Next, Plugin};
use crate::constants::capability;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::handshake::{agree, response, tls_request, Greeting, ServerInfo, NONCE};
use crate::intake::{END_MARKER, ERROR_MARKER};
use crate::options::Options;
use crate::packet::{text, Reader, MOST_NAME_BYTES};
use crate::resultset::{ok, server_error};
use crate::tls::TlsMode;

/// What the connection must do after a packet of the connection phase.
#[derive(Debug)]
pub(crate) enum Action {
    /// Wait for more.
    Wait,
    /// Send this payload.
    Send(Vec<u8>),
    /// Send the first payload, start TLS, then send the second one through it.
    StartTls(Vec<u8>, Vec<u8>),
    /// The server lets us in.
    Authenticated,
}

/// The state of the authentication exchange; dropped once it is over.
#[derive(Debug, Default)]
pub(crate) struct Login {
    plugin: Option<Plugin>,
    nonce: Vec<u8>,
    uses_tls: bool,
}

impl Login {
    /// Answers the greeting; `server` is filled in.
    pub fn greeting(
        &mut self,
        options: &Options,
        payload: &[u8],
        server: &mut Option<Box<ServerInfo>>,
    ) -> Result<Action, Error> {
        if payload.first() == Some(&ERROR_MARKER) {
            return Err(Error::Server(server_error(payload)?));
        }
        let greeting = Greeting::parse(payload)?;
        self.uses_tls = wants_tls(options, &greeting.server)?;
        let agreed = agree(options, &greeting.server, self.uses_tls)?;
        self.nonce = greeting.nonce;
        // A default plugin that is not ours is no matter: the server then asks for the account's own.
        let plugin = Plugin::from_name(&greeting.plugin).unwrap_or(Plugin::Native);
        self.plugin = Some(plugin);
        *server = Some(Box::new(ServerInfo {
            agreed,
            ..greeting.server
        }));
        let answer = response(options, agreed, plugin, &plugin.answer(&options.password, &self.nonce))?;
        Ok(match self.uses_tls {
            true => Action::StartTls(tls_request(options, agreed), answer),
            false => Action::Send(answer),
        })
    }

    /// Goes on with the exchange.
    pub fn exchange(&mut self, options: &Options, payload: &[u8]) -> Result<Action, Error> {
        match payload.first() {
            Some(0) => ok(payload).map(|_| Action::Authenticated),
            Some(&ERROR_MARKER) => Err(Error::Server(server_error(payload)?)),
            Some(&END_MARKER) => self.switch(options, &payload[1..]),
            Some(1) => self.more(options, &payload[1..]),
            other => Err(Error::protocol(format!(
                "authentication packet starting with {other:?}"
            ))),
        }
    }

    /// The server asks for another plugin.
    fn switch(&mut self, options: &Options, request: &[u8]) -> Result<Action, Error> {
        let mut reader = Reader::new(request);
        let name = reader.until_zero();
        if name.is_empty() {
            return Err(Error::setup(
                "the account has a password from before MySQL 4.1: set it again",
            ));
        }
        let plugin = Plugin::from_name(name).ok_or_else(|| Error::UnknownPlugin {
            user: options.user.clone(),
            plugin: text(name, MOST_NAME_BYTES),
        })?;
        let nonce = reader.rest();
        let length = if plugin == Plugin::Ed25519 { 32 } else { NONCE };
        self.nonce = nonce
            .get(..length)
            .ok_or_else(|| Error::protocol("too few random bytes"))?
            .to_vec();
        self.plugin = Some(plugin);
        Ok(Action::Send(plugin.answer(&options.password, &self.nonce)))
    }

    fn more(&mut self, options: &Options, data: &[u8]) -> Result<Action, Error> {
        let plugin = self
            .plugin
            .ok_or_else(|| Error::protocol("authentication data before the greeting"))?;
        let private = self.uses_tls || matches!(options.endpoint, Endpoint::Unix(_));
        let key_allowed = options.allow_public_key_retrieval || options.endpoint.is_local();
        Ok(
            match plugin.more(&options.password, &self.nonce, data, private, key_allowed)? {
                Next::Send(payload) => Action::Send(payload),
                Next::Wait => Action::Wait,
            },
        )
    }
}

/// Whether TLS is to be used with this server; an error when it must be and cannot.
fn wants_tls(options: &Options, server: &ServerInfo) -> Result<bool, Error> {
    let Some(tls) = &options.tls else {
        return Ok(false);
    };
    let offered = server.capabilities & capability::SSL != 0;
    match tls.mode {
        TlsMode::Disabled => Ok(false),
        // A Unix socket is private already, so the clients of both servers leave TLS out.
        TlsMode::Preferred => Ok(offered && matches!(options.endpoint, Endpoint::Tcp { .. })),
        mode if !offered => Err(Error::setup(format!(
            "TLS mode {mode:?} needs TLS, which server {} at {} does not offer",
            server.version, options.endpoint
        ))),
        _ => Ok(true),
    }
}
