//! A panic is a bug: it ends the whole program, on whatever thread it is.

/// From now on a panic prints its message as usual, then aborts the program (SIGABRT).
///
/// This stands in for `panic = "abort"`, under which LuaJIT cannot throw: an error of Lua is a foreign exception, and the
/// unwinder refuses to take it through a function that was compiled not to unwind. LuaJIT then ends the program with
/// exit code 1 and without a message.
pub fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    const CHILD: &str = "PANIC_IN_A_CHILD";

    #[test]
    fn a_panic_of_any_thread_ends_the_program_with_its_message() {
        if std::env::var_os(CHILD).is_some() {
            abort_on_panic();
            // Without the abort the program would go on, and end with 0.
            let _ = std::thread::spawn(|| panic!("a bug in a thread")).join();
            std::process::exit(0);
        }
        let own = "panics::tests::a_panic_of_any_thread_ends_the_program_with_its_message";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", own, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{said}");
        assert!(said.contains("a bug in a thread"), "{said}");
    }
}
