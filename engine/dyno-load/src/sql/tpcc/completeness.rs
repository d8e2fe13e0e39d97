//! Whether the preparation of the tables has ended.

use dyno_mysql::blocking::Client;

use super::load::CHUNK_ITEMS;
use super::random::{DISTRICTS, ITEMS};
use super::schema;
use crate::error::Error;
use crate::sql::server::failed;

/// What an interrupted preparation has left out of warehouses 1 to `warehouses`, in words. A run removes no row of these
/// tables, and a chunk is one transaction: its first row stands for it.
///
/// # Errors
/// When the server refuses.
pub fn unfinished(client: &mut Client, warehouses: u32) -> Result<Option<String>, Error> {
    for (table, name, _) in schema::completion(false) {
        if !schema::is_done(client, table, name, false)? {
            return Ok(Some(format!("the index {name} of {table}")));
        }
    }
    let list =
        |numbers: &mut dyn Iterator<Item = u32>| numbers.map(|one| one.to_string()).collect::<Vec<_>>().join(",");
    let districts = list(&mut (1..=DISTRICTS));
    let firsts = list(&mut (1..=ITEMS).step_by(CHUNK_ITEMS as usize));
    for warehouse in 1..=warehouses {
        for (table, condition, chunks) in [
            (
                "customer",
                format!("c_w_id = {warehouse} AND c_d_id IN ({districts}) AND c_id = 1"),
                DISTRICTS,
            ),
            (
                "orders",
                format!("o_w_id = {warehouse} AND o_d_id IN ({districts}) AND o_id = 1"),
                DISTRICTS,
            ),
            (
                "stock",
                format!("s_w_id = {warehouse} AND s_i_id IN ({firsts})"),
                ITEMS / CHUNK_ITEMS,
            ),
        ] {
            let question = format!("SELECT COUNT(*) FROM {table} WHERE {condition}");
            let count = client
                .query_text(&question)
                .map_err(|error| failed(&question, &error))?;
            if count.as_deref() != Some(&*chunks.to_string()) {
                return Ok(Some(format!("rows of {table} in warehouse {warehouse}")));
            }
        }
    }
    Ok(None)
}
