//! The nine tables of TPC-C 5.11 (clause 1.3) under tpcc-mysql's names, their indexes and foreign keys, and rows of them
//! cell by cell.
//!
//! Where tpcc-mysql is narrower than the standard, the standard's width is taken (taxes and discounts have four digits after
//! the point). Where a run without think times would overflow the standard's width within hours, a wider type is: W_YTD,
//! D_YTD, and all counts. HISTORY has a primary key of its own, the only column that the standard has not: without one,
//! InnoDB makes a hidden one, and Group Replication refuses the table.

use dyno_mysql::blocking::Client;
use dyno_mysql::{DateTime, Value};

use crate::error::Error;
use crate::sql::data::Prepared;
use crate::sql::server::failed;

/// W_ID is a SMALLINT.
pub const MOST_WAREHOUSES: u32 = 32_767;

/// One table: its name and its columns in words of CREATE TABLE.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Name.
    pub name: &'static str,
    /// Columns that a row of the load gives, in their order.
    pub columns: &'static [&'static str],
    /// Body of CREATE TABLE.
    body: &'static str,
    /// Rows of one INSERT of the load: about 100 KB, below every server's max_allowed_packet.
    pub rows_per_insert: usize,
}

/// WAREHOUSE.
pub const WAREHOUSE: Table = Table {
    name: "warehouse",
    columns: &["w_id", "w_name", "w_street_1", "w_street_2", "w_city", "w_state", "w_zip", "w_tax", "w_ytd"],
    body: "w_id smallint not null, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20), \
           w_state char(2), w_zip char(9), w_tax decimal(4,4), w_ytd decimal(15,2), primary key (w_id)",
    rows_per_insert: 1,
};

/// DISTRICT.
pub const DISTRICT: Table = Table {
    name: "district",
    columns: &[
        "d_id",
        "d_w_id",
        "d_name",
        "d_street_1",
        "d_street_2",
        "d_city",
        "d_state",
        "d_zip",
        "d_tax",
        "d_ytd",
        "d_next_o_id",
    ],
    body: "d_id tinyint not null, d_w_id smallint not null, d_name varchar(10), d_street_1 varchar(20), \
           d_street_2 varchar(20), d_city varchar(20), d_state char(2), d_zip char(9), d_tax decimal(4,4), \
           d_ytd decimal(15,2), d_next_o_id int, primary key (d_w_id, d_id)",
    rows_per_insert: 10,
};

/// CUSTOMER.
pub const CUSTOMER: Table = Table {
    name: "customer",
    columns: &[
        "c_id",
        "c_d_id",
        "c_w_id",
        "c_first",
        "c_middle",
        "c_last",
        "c_street_1",
        "c_street_2",
        "c_city",
        "c_state",
        "c_zip",
        "c_phone",
        "c_since",
        "c_credit",
        "c_credit_lim",
        "c_discount",
        "c_balance",
        "c_ytd_payment",
        "c_payment_cnt",
        "c_delivery_cnt",
        "c_data",
    ],
    body:
        "c_id int not null, c_d_id tinyint not null, c_w_id smallint not null, c_first varchar(16), c_middle char(2), \
           c_last varchar(16), c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), c_state char(2), \
           c_zip char(9), c_phone char(16), c_since datetime, c_credit char(2), c_credit_lim decimal(12,2), \
           c_discount decimal(4,4), c_balance decimal(12,2), c_ytd_payment decimal(12,2), c_payment_cnt int, \
           c_delivery_cnt int, c_data varchar(500), primary key (c_w_id, c_d_id, c_id)",
    rows_per_insert: 150,
};

/// HISTORY.
pub const HISTORY: Table = Table {
    name: "history",
    columns: &[
        "h_id", "h_c_id", "h_c_d_id", "h_c_w_id", "h_d_id", "h_w_id", "h_date", "h_amount", "h_data",
    ],
    body: "h_id bigint not null auto_increment, h_c_id int, h_c_d_id tinyint, h_c_w_id smallint, h_d_id tinyint, \
           h_w_id smallint, h_date datetime, h_amount decimal(6,2), h_data varchar(24), primary key (h_id)",
    rows_per_insert: 600,
};

/// NEW-ORDER.
pub const NEW_ORDERS: Table = Table {
    name: "new_orders",
    columns: &["no_o_id", "no_d_id", "no_w_id"],
    body: "no_o_id int not null, no_d_id tinyint not null, no_w_id smallint not null, \
           primary key (no_w_id, no_d_id, no_o_id)",
    rows_per_insert: 900,
};

/// ORDER.
pub const ORDERS: Table = Table {
    name: "orders",
    columns: &[
        "o_id",
        "o_d_id",
        "o_w_id",
        "o_c_id",
        "o_entry_d",
        "o_carrier_id",
        "o_ol_cnt",
        "o_all_local",
    ],
    body: "o_id int not null, o_d_id tinyint not null, o_w_id smallint not null, o_c_id int, o_entry_d datetime, \
           o_carrier_id tinyint, o_ol_cnt tinyint, o_all_local tinyint, primary key (o_w_id, o_d_id, o_id)",
    rows_per_insert: 600,
};

/// ORDER-LINE.
pub const ORDER_LINE: Table = Table {
    name: "order_line",
    columns: &[
        "ol_o_id",
        "ol_d_id",
        "ol_w_id",
        "ol_number",
        "ol_i_id",
        "ol_supply_w_id",
        "ol_delivery_d",
        "ol_quantity",
        "ol_amount",
        "ol_dist_info",
    ],
    body: "ol_o_id int not null, ol_d_id tinyint not null, ol_w_id smallint not null, ol_number tinyint not null, \
           ol_i_id int, ol_supply_w_id smallint, ol_delivery_d datetime, ol_quantity tinyint, ol_amount decimal(6,2), \
           ol_dist_info char(24), primary key (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    rows_per_insert: 1000,
};

/// ITEM.
pub const ITEM: Table = Table {
    name: "item",
    columns: &["i_id", "i_im_id", "i_name", "i_price", "i_data"],
    body: "i_id int not null, i_im_id int, i_name varchar(24), i_price decimal(5,2), i_data varchar(50), \
           primary key (i_id)",
    rows_per_insert: 1000,
};

/// STOCK.
pub const STOCK: Table = Table {
    name: "stock",
    columns: &[
        "s_i_id",
        "s_w_id",
        "s_quantity",
        "s_dist_01",
        "s_dist_02",
        "s_dist_03",
        "s_dist_04",
        "s_dist_05",
        "s_dist_06",
        "s_dist_07",
        "s_dist_08",
        "s_dist_09",
        "s_dist_10",
        "s_ytd",
        "s_order_cnt",
        "s_remote_cnt",
        "s_data",
    ],
    body:
        "s_i_id int not null, s_w_id smallint not null, s_quantity smallint, s_dist_01 char(24), s_dist_02 char(24), \
           s_dist_03 char(24), s_dist_04 char(24), s_dist_05 char(24), s_dist_06 char(24), s_dist_07 char(24), \
           s_dist_08 char(24), s_dist_09 char(24), s_dist_10 char(24), s_ytd decimal(12,0), s_order_cnt int, \
           s_remote_cnt int, s_data varchar(50), primary key (s_w_id, s_i_id)",
    rows_per_insert: 250,
};

/// Every table, in an order in which foreign keys point backwards.
pub const TABLES: [Table; 9] = [
    WAREHOUSE, DISTRICT, CUSTOMER, HISTORY, ITEM, STOCK, ORDERS, NEW_ORDERS, ORDER_LINE,
];

/// The two indexes that the transactions read by: table, name, columns.
const INDEXES: [(&str, &str, &str); 2] = [
    ("customer", "idx_customer", "c_w_id, c_d_id, c_last, c_first"),
    ("orders", "idx_orders", "o_w_id, o_d_id, o_c_id, o_id"),
];

/// Indexes that only foreign keys want.
const FOREIGN_KEY_INDEXES: [(&str, &str, &str); 2] = [
    ("stock", "fkey_stock_2", "s_i_id"),
    ("order_line", "fkey_order_line_2", "ol_supply_w_id, ol_i_id"),
];

/// Table, name, columns, what they refer to.
const FOREIGN_KEYS: [(&str, &str, &str, &str); 10] = [
    ("district", "fkey_district_1", "d_w_id", "warehouse (w_id)"),
    (
        "customer",
        "fkey_customer_1",
        "c_w_id, c_d_id",
        "district (d_w_id, d_id)",
    ),
    (
        "history",
        "fkey_history_1",
        "h_c_w_id, h_c_d_id, h_c_id",
        "customer (c_w_id, c_d_id, c_id)",
    ),
    ("history", "fkey_history_2", "h_w_id, h_d_id", "district (d_w_id, d_id)"),
    (
        "new_orders",
        "fkey_new_orders_1",
        "no_w_id, no_d_id, no_o_id",
        "orders (o_w_id, o_d_id, o_id)",
    ),
    (
        "orders",
        "fkey_orders_1",
        "o_w_id, o_d_id, o_c_id",
        "customer (c_w_id, c_d_id, c_id)",
    ),
    (
        "order_line",
        "fkey_order_line_1",
        "ol_w_id, ol_d_id, ol_o_id",
        "orders (o_w_id, o_d_id, o_id)",
    ),
    (
        "order_line",
        "fkey_order_line_2",
        "ol_supply_w_id, ol_i_id",
        "stock (s_w_id, s_i_id)",
    ),
    ("stock", "fkey_stock_1", "s_w_id", "warehouse (w_id)"),
    ("stock", "fkey_stock_2", "s_i_id", "item (i_id)"),
];

impl Table {
    /// The table, as [`Self::create`] makes it.
    pub fn prepared(&self) -> Prepared {
        Prepared::new(self.name, self.columns)
    }

    /// CREATE TABLE.
    pub fn create(&self) -> String {
        format!("CREATE TABLE {} ({}) ENGINE = InnoDB", self.name, self.body)
    }

    /// INSERT of `rows` rows with question marks.
    pub fn insert(&self, rows: usize) -> String {
        let row = format!("({})", vec!["?"; self.columns.len()].join(","));
        let rows = vec![row; rows].join(",");
        format!("INSERT INTO {} ({}) VALUES {rows}", self.name, self.columns.join(", "))
    }
}

/// Which of the tables are there.
///
/// # Errors
/// When the server refuses, or something else has the name of one.
pub fn existing(client: &mut Client) -> Result<Vec<&'static str>, Error> {
    let mut there = |table: &Table| Ok(table.prepared().is_there(client)?.then_some(table.name));
    TABLES.iter().filter_map(|table| there(table).transpose()).collect()
}

/// What has to be done after the load: indexes, then foreign keys; each with the table it is on and its name.
pub fn completion(foreign_keys: bool) -> Vec<(&'static str, &'static str, String)> {
    let index = |(table, name, columns): &(&'static str, &'static str, &'static str)| {
        (*table, *name, format!("CREATE INDEX {name} ON {table} ({columns})"))
    };
    let mut steps: Vec<_> = INDEXES.iter().map(index).collect();
    if foreign_keys {
        steps.extend(FOREIGN_KEY_INDEXES.iter().map(index));
        steps.extend(FOREIGN_KEYS.iter().map(|(table, name, columns, target)| {
            let sql = format!("ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) REFERENCES {target}");
            (*table, *name, sql)
        }));
    }
    steps
}

/// Whether an index or a foreign key of that name is there.
///
/// # Errors
/// When the server refuses.
pub fn is_done(client: &mut Client, table: &str, name: &str, foreign_key: bool) -> Result<bool, Error> {
    let question = if foreign_key {
        format!(
            "SELECT COUNT(*) FROM information_schema.table_constraints WHERE table_schema = DATABASE() AND table_name = \
             '{table}' AND constraint_name = '{name}' AND constraint_type = 'FOREIGN KEY'"
        )
    } else {
        format!(
            "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = \
             '{table}' AND index_name = '{name}'"
        )
    };
    let count = client
        .query_text(&question)
        .map_err(|error| failed(&question, &error))?;
    Ok(count.is_some_and(|text| text != "0"))
}

/// The date of everything in the initial population: fixed, so that the same seed makes the same tables.
pub const LOAD_DATE: DateTime = DateTime {
    year: 2026,
    month: 1,
    day: 1,
    hour: 0,
    minute: 0,
    second: 0,
    microsecond: 0,
};

#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Int(i32),
    Long(i64),
    Text(u32, u32),
    Date,
}

/// Rows of one table, cell by cell.
#[derive(Debug, Default)]
pub struct Batch {
    text: Vec<u8>,
    cells: Vec<Cell>,
}

impl Batch {
    /// Empties it.
    pub fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
    }

    /// Adds an integer.
    pub fn int(&mut self, value: u32) {
        self.cells.push(Cell::Int(value as i32));
    }

    /// Adds a large integer.
    pub fn long(&mut self, value: u64) {
        self.cells.push(Cell::Long(value as i64));
    }

    /// Adds NULL.
    pub fn null(&mut self) {
        self.cells.push(Cell::Null);
    }

    /// Adds the date of the load.
    pub fn date(&mut self) {
        self.cells.push(Cell::Date);
    }

    /// Adds the text that `write` appends.
    pub fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len() as u32;
        write(&mut self.text);
        self.cells.push(Cell::Text(start, self.text.len() as u32));
    }

    /// Adds a number of ten-thousandths or hundredths as a decimal text, as in 0.1234 or 12.34.
    pub fn decimal(&mut self, value: u32, digits: usize) {
        let scale = 10u32.pow(digits as u32);
        // Writing to a vector cannot fail.
        self.text(|out| {
            drop(std::io::Write::write_fmt(
                out,
                format_args!("{}.{:0digits$}", value / scale, value % scale),
            ))
        });
    }

    /// The last text added.
    pub fn last_text(&self) -> &[u8] {
        match self.cells.last() {
            Some(Cell::Text(start, end)) => &self.text[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// Cells so far.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The cells as parameters.
    pub fn values(&self) -> Vec<Value<'_>> {
        let value = |cell: &Cell| match *cell {
            Cell::Null => Value::Null,
            Cell::Int(value) => Value::Int32(value),
            Cell::Long(value) => Value::Int(value),
            Cell::Text(start, end) => Value::Bytes(&self.text[start as usize..end as usize]),
            Cell::Date => Value::DateTime(LOAD_DATE),
        };
        self.cells.iter().map(value).collect()
    }
}
