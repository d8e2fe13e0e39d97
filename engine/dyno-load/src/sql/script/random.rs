//! sysbench.rand: drawn from the stream of the event, so that an event sends the same whatever thread runs it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use dyno_core::distribution::{Distribution, Parameters, Uniform};
use dyno_core::random::RandomStream;
use mlua::{Lua, Table, Value};

use crate::sql::definition::Part;

/// The stream of the coroutine that runs.
pub type Stream = Rc<RefCell<RandomStream>>;

/// Counts the values of sysbench.rand.unique() in this program, which has all of the load or an agent's part.
static UNIQUE: AtomicU32 = AtomicU32::new(0);

/// A different value for each count until all of 32 bits are used: each step of it can be undone.
fn scatter(count: u32, seed: u64) -> u32 {
    let mut value = count.wrapping_add((seed as u32).wrapping_mul(0x9e37_79b9));
    value = (value ^ (value >> 16)).wrapping_mul(0x7feb_352d);
    value = (value ^ (value >> 15)).wrapping_mul(0x846c_a68b);
    value ^ (value >> 16)
}

/// Fills a format as sysbench does: `#` is a digit, `@` a small letter, the rest stays.
fn fill(stream: &mut RandomStream, format: &[u8]) -> Vec<u8> {
    let mut out = format.to_vec();
    let (mut bits, mut left) = (0u64, 0u32);
    for byte in &mut out {
        let (first, count) = match byte {
            b'#' => (b'0', 10),
            b'@' => (b'a', 26),
            _ => continue,
        };
        if left == 0 {
            (bits, left) = (stream.next_u64(), 12);
        }
        // Twelve values from 64 bits: the bias of a value below 26 is at most 2^-7 of 2^-57.
        *byte = first + (bits % count) as u8;
        bits /= count;
        left -= 1;
    }
    out
}

/// An argument that is a number or a text that is one; the message is Lua's own.
fn number(function: &str, position: u32, value: &Value) -> mlua::Result<f64> {
    let of_text = |text: &mlua::String| text.to_str().ok().and_then(|text| text.trim().parse().ok());
    let number = match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => of_text(text),
        _ => None,
    };
    number.ok_or_else(|| {
        let seen = value.type_name();
        mlua::Error::runtime(format!(
            "bad argument #{position} to 'sysbench.rand.{function}' (number expected, got {seen})"
        ))
    })
}

/// Numbers of Lua as C would convert them.
fn bounds(function: &str, (low, high): &(Value, Value)) -> mlua::Result<(u32, u32)> {
    let low = number(function, 1, low)? as i64 as u32;
    let high = number(function, 2, high)? as i64 as u32;
    if low > high {
        return Err(mlua::Error::runtime(format!(
            "the range from {low} to {high} of a random number is empty"
        )));
    }
    Ok((low, high))
}

/// Adds the functions to `native`.
///
/// # Errors
/// When a parameter of a distribution is outside its range, or there is no memory.
pub fn register(
    lua: &Lua,
    native: &Table,
    stream: &Stream,
    rand_type: &str,
    parameters: &Parameters,
    (seed, part): (u64, Part),
) -> Result<(), String> {
    let text = |error: mlua::Error| error.to_string();
    for name in ["default", "uniform", "gaussian", "special", "pareto", "zipfian"] {
        let kind = if name == "default" { rand_type } else { name };
        let distribution = Distribution::named(kind, parameters)?;
        let stream = Rc::clone(stream);
        let draw = move |_: &Lua, range: (Value, Value)| {
            let (low, high) = bounds(name, &range)?;
            Ok(distribution.draw(&mut stream.borrow_mut(), low, high))
        };
        let function = lua.create_function(draw).map_err(text)?;
        native.set(format!("rand_{name}"), function).map_err(text)?;
    }
    let add = |name: &str, function: mlua::Result<mlua::Function>| {
        function.and_then(|function| native.set(name, function)).map_err(text)
    };
    add(
        "rand_unique",
        lua.create_function(move |_, ()| {
            let drawn = UNIQUE.fetch_add(1, Ordering::Relaxed);
            Ok(scatter(drawn.wrapping_mul(part.count).wrapping_add(part.index), seed))
        }),
    )?;
    let own = Rc::clone(stream);
    add(
        "rand_bits32",
        lua.create_function(move |_, ()| Ok((own.borrow_mut().next_u64() >> 32) as u32)),
    )?;
    let own = Rc::clone(stream);
    add(
        "rand_double",
        lua.create_function(move |_, ()| Ok(own.borrow_mut().next_double())),
    )?;
    let own = Rc::clone(stream);
    let string = move |lua: &Lua, format: Value| {
        let Some(text) = lua.coerce_string(format.clone())? else {
            let seen = format.type_name();
            return Err(mlua::Error::runtime(format!(
                "bad argument #1 to 'sysbench.rand.string' (string expected, got {seen})"
            )));
        };
        lua.create_string(fill(&mut own.borrow_mut(), &text.as_bytes()))
    };
    add("rand_string", lua.create_function(string))?;
    let own = Rc::clone(stream);
    let varstring = move |lua: &Lua, range: (Value, Value)| {
        let (low, high) = bounds("varstring", &range)?;
        let mut stream = own.borrow_mut();
        let length = Uniform.draw(&mut stream, low, high) as usize;
        lua.create_string(fill(&mut stream, &vec![b'@'; length]))
    };
    add("rand_varstring", lua.create_function(varstring))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use dyno_core::random::Domain;

    use super::*;

    #[test]
    fn unique_values_do_not_repeat() {
        let values: HashSet<u32> = (0..100_000).map(|count| scatter(count, 7)).collect();
        assert_eq!(values.len(), 100_000);
        assert_ne!(scatter(0, 7), scatter(0, 8));
    }

    #[test]
    fn a_format_keeps_what_is_neither_digit_nor_letter() {
        let mut stream = RandomStream::of(1, Domain::Operation, 1);
        let text = fill(&mut stream, b"###-@@@ x");
        assert!(text[..3].iter().all(u8::is_ascii_digit) && text[4..7].iter().all(u8::is_ascii_lowercase));
        assert_eq!((text[3], &text[7..]), (b'-', &b" x"[..]));
    }
}
