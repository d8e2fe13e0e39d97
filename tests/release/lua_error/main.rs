//! Errors of Lua through frames of Rust and back: they unwind the stack, which needs an unwinder that was linked.

use mlua::{Error, Lua, Result};

fn main() -> Result<()> {
    let lua = Lua::new();
    let fail = lua.create_function(|_, ()| -> Result<()> { Err(Error::runtime("raised in Rust")) })?;
    lua.globals().set("fail", fail)?;
    let call = lua.create_function(|_, function: mlua::Function| function.call::<()>(()))?;
    lua.globals().set("call", call)?;
    let (passed, message): (bool, String) = lua
        .load("local passed, message = pcall(fail) return passed, tostring(message)")
        .eval()?;
    println!("{passed} {}", message.lines().next().unwrap_or_default());
    let (passed, message): (bool, String) = lua
        .load("local passed, message = pcall(call, function() error('raised in Lua', 0) end) return passed, tostring(message)")
        .eval()?;
    println!("{passed} {}", message.lines().next().unwrap_or_default());
    println!(
        "{} {}",
        lua.globals().get::<mlua::Table>("jit")?.get::<String>("version")?,
        std::panic::catch_unwind(|| panic!()).is_err()
    );
    Ok(())
}
