//! Orders that the server has acknowledged, in a file: after a crash every one of them must be there.
//!
//! A line an order, `warehouse district order`. Each worker appends whole lines to the same file, a block at a time and at
//! the end of every interval: the file survives a crash of the server, not one of this program's machine. Costs about
//! 50 ns an order.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::error::Error;

/// Lines are written out in blocks of this size.
const BLOCK_BYTES: usize = 64 * 1024;

/// The key of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderId {
    /// O_W_ID.
    pub warehouse: u32,
    /// O_D_ID.
    pub district: u32,
    /// O_ID.
    pub order: u32,
}

/// One worker's way into the file.
#[derive(Debug)]
pub struct Acknowledgements {
    file: File,
    block: Vec<u8>,
}

impl Acknowledgements {
    /// Opens the file to append to it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self {
            file,
            block: Vec::with_capacity(BLOCK_BYTES + 64),
        })
    }

    /// Notes one order.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note(&mut self, id: OrderId) -> io::Result<()> {
        writeln!(self.block, "{} {} {}", id.warehouse, id.district, id.order)?;
        if self.block.len() >= BLOCK_BYTES {
            return self.flush();
        }
        Ok(())
    }

    /// Writes out what is noted.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

/// Reads the file back.
///
/// # Errors
/// When it cannot be read, or a line is not three numbers.
pub fn read(path: &Path) -> Result<Vec<OrderId>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::User(format!("--acknowledged '{}' cannot be read: {error}", path.display())))?;
    let order = |(number, line): (usize, &str)| {
        let mut parts = line.split(' ').map(str::parse);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(warehouse)), Some(Ok(district)), Some(Ok(order)), None) => Ok(OrderId {
                warehouse,
                district,
                order,
            }),
            _ => Err(Error::User(format!(
                "--acknowledged '{}', line {}: '{line}' is not `warehouse district order`",
                path.display(),
                number + 1
            ))),
        }
    };
    text.lines().enumerate().map(order).collect()
}
