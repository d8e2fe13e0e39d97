//! The limit of a script's time: a look at the clock now and then, and at where the script is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::{HookTriggers, Lua, VmState};

/// Instructions between two looks at the clock.
const INSTRUCTIONS: u32 = 100_000;

/// What is known of the script that computes.
#[derive(Debug, Clone)]
pub struct Watch {
    /// Since when it computes without a statement.
    since: Rc<Cell<Instant>>,
    /// Where it was at the last look, as FILE:LINE.
    seen: Rc<RefCell<Option<String>>>,
    limit: Duration,
}

impl Watch {
    /// From now on.
    pub fn new(limit: Duration) -> Self {
        Self {
            since: Rc::new(Cell::new(Instant::now())),
            seen: Rc::default(),
            limit,
        }
    }

    /// It waited: it may compute for the limit's time from now on.
    #[inline]
    pub fn waited(&self) {
        self.since.set(Instant::now());
    }

    /// Where it was at the last look, as FILE:LINE; none before the first one.
    pub fn seen(&self) -> Option<String> {
        self.seen.borrow().clone()
    }

    /// Whether its time is up.
    pub fn is_overdue(&self) -> bool {
        self.since.get().elapsed() > self.limit
    }

    /// Ends a script that computes for longer than the limit without a statement.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn begin(&self, lua: &Lua) -> mlua::Result<()> {
        let watch = self.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_global_hook(triggers, move |_, debug| {
            let file = debug.source().short_src.unwrap_or_default().into_owned();
            let place = format!("{file}:{}", debug.current_line().unwrap_or(0));
            if !watch.is_overdue() {
                *watch.seen.borrow_mut() = Some(place);
                return Ok(VmState::Continue);
            }
            Err(mlua::Error::runtime(format!(
                "{place}: the script has computed for {} s without a statement: an endless loop? --script-time-limit \
                 allows more",
                watch.limit.as_secs_f64()
            )))
        })
    }
}
