//! The session's part that ends its script: thread_done().

use std::sync::Arc;

use super::{ScriptSession, OWN};
use crate::sql::script::blocking::{values, BlockingConnections};
use crate::sql::script::request::{Answer, Request};

impl ScriptSession {
    /// Runs thread_done(). Its statements go over a blocking connection: the load loop serves none any more.
    #[cold]
    pub(super) fn finish_thread(&mut self) {
        let Some(mut thread) = self.thread.take() else { return };
        if !self.machine.has(&thread, "thread_done") {
            return;
        }
        let mut last = BlockingConnections::new(Arc::clone(&self.settings.options), self.settings.prepared, OWN);
        let mut is_open = false;
        self.machine.waited();
        let mut request = self.machine.call(&mut thread, "thread_done");
        loop {
            let answer = match request {
                Ok(Request::Stop) => return,
                Err(message) => {
                    dyno_core::tell!("dynoload: thread_done(): {message}");
                    return;
                }
                Ok(Request::Close(OWN, _) | Request::Disconnect(OWN)) => Answer::Nothing,
                Ok(Request::Execute(OWN, slot, parameters)) => {
                    let mut rendered = Vec::new();
                    if let Some(prepared) = self.statements.get(slot) {
                        prepared.sql.write(&mut rendered, &values(&parameters));
                    }
                    Self::perform_last(&mut last, &mut is_open, Request::Query(OWN, rendered))
                }
                Ok(request @ (Request::Query(OWN, _) | Request::Prepare(OWN, _) | Request::Fetch(OWN))) => {
                    Self::perform_last(&mut last, &mut is_open, request)
                }
                Ok(other) => self.perform(other),
            };
            self.machine.waited();
            request = self.machine.resume(&mut thread, answer);
        }
    }

    pub(super) fn perform_last(last: &mut BlockingConnections, is_open: &mut bool, request: Request) -> Answer {
        if !*is_open {
            *is_open = true;
            if let (Answer::Refused(refused), _) = last.perform(Request::Connect, &|_| false) {
                return Answer::Refused(refused);
            }
        }
        last.perform(request, &|_| false).0
    }
}
