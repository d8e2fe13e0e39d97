//! What a workload is to the engine: its statements, the order in which one transaction calls them, and which part of the
//! load is one agent's.

use dyno_capture::lexer::tokens;

/// What a statement is there for; counts and histograms are kept per kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StatementKind {
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// One row by its id.
    PointSelect,
    /// A range of rows.
    SimpleRange,
    /// The sum over a range.
    SumRange,
    /// A range, sorted.
    OrderRange,
    /// The distinct values of a range, sorted.
    DistinctRange,
    /// Update of the indexed column.
    IndexUpdate,
    /// Update of a column without an index.
    NonIndexUpdate,
    /// Delete of one row.
    Delete,
    /// Insert of one row.
    Insert,
    /// Several points of the index on k.
    RandomPoints,
    /// Several ranges of the index on k.
    RandomRanges,
    /// Connect, authenticate, disconnect.
    Connect,
    /// Rows read without a lock (TPC-C).
    Select,
    /// Rows read and locked (TPC-C).
    SelectForUpdate,
    /// Rows changed (TPC-C).
    Update,
    /// ROLLBACK.
    Rollback,
    /// A stored procedure (TPC-C).
    Procedure,
    /// Anything else (scripts).
    Other,
}

impl StatementKind {
    /// Number of kinds.
    pub const COUNT: usize = 20;

    /// Every kind, in the order of its number.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Begin,
        Self::Commit,
        Self::PointSelect,
        Self::SimpleRange,
        Self::SumRange,
        Self::OrderRange,
        Self::DistinctRange,
        Self::IndexUpdate,
        Self::NonIndexUpdate,
        Self::Delete,
        Self::Insert,
        Self::RandomPoints,
        Self::RandomRanges,
        Self::Connect,
        Self::Select,
        Self::SelectForUpdate,
        Self::Update,
        Self::Rollback,
        Self::Procedure,
        Self::Other,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Commit => "commit",
            Self::PointSelect => "point_select",
            Self::SimpleRange => "simple_range",
            Self::SumRange => "sum_range",
            Self::OrderRange => "order_range",
            Self::DistinctRange => "distinct_range",
            Self::IndexUpdate => "index_update",
            Self::NonIndexUpdate => "non_index_update",
            Self::Delete => "delete",
            Self::Insert => "insert",
            Self::RandomPoints => "random_points",
            Self::RandomRanges => "random_ranges",
            Self::Connect => "connect",
            Self::Select => "select",
            Self::SelectForUpdate => "select_for_update",
            Self::Update => "update",
            Self::Rollback => "rollback",
            Self::Procedure => "procedure",
            Self::Other => "other",
        }
    }

    /// Whether it is there to insert, update or delete rows.
    pub fn changes_rows(self) -> bool {
        matches!(
            self,
            Self::Insert | Self::Update | Self::IndexUpdate | Self::NonIndexUpdate | Self::Delete
        )
    }

    /// Whether its rows are among those that `dynoload oltp prepare` stores, and no statement of OLTP removes for good.
    pub fn has_prepared_rows(self) -> bool {
        matches!(
            self,
            Self::PointSelect
                | Self::SimpleRange
                | Self::OrderRange
                | Self::DistinctRange
                | Self::IndexUpdate
                | Self::NonIndexUpdate
        )
    }

    /// What a statement of unknown text is, by its first word; after WITH, by that of the query it is for.
    pub fn of(sql: &[u8]) -> Self {
        let words: [(&str, Self); 9] = [
            ("SELECT", Self::Select),
            ("INSERT", Self::Insert),
            ("UPDATE", Self::Update),
            ("DELETE", Self::Delete),
            ("BEGIN", Self::Begin),
            ("START", Self::Begin),
            ("COMMIT", Self::Commit),
            ("ROLLBACK", Self::Rollback),
            ("CALL", Self::Procedure),
        ];
        let mut tokens = tokens(sql).skip_while(|token| token.is_symbol(b'('));
        let Some(mut word) = tokens.next() else {
            return Self::Other;
        };
        if word.is_word("WITH") {
            let mut depth = 0u32;
            let after_with = tokens.find(|token| {
                depth = (depth + u32::from(token.is_symbol(b'('))).saturating_sub(u32::from(token.is_symbol(b')')));
                depth == 0 && token.is_any(&["SELECT", "UPDATE", "DELETE"])
            });
            word = after_with.unwrap_or(word);
        }
        let found = words.iter().find(|(name, _)| word.is_word(name));
        found.map_or(Self::Other, |(_, kind)| *kind)
    }
}

/// The type of one parameter of a prepared statement, as sysbench binds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    /// A 64-bit integer.
    Integer,
    /// A string.
    Text,
}

/// One statement: a text with `{table}` for the table's number and `?` for parameters.
#[derive(Debug, Clone)]
pub struct Statement {
    /// What it is there for.
    pub kind: StatementKind,
    /// Text as sysbench sends it.
    pub template: String,
    /// Types of its parameters.
    pub parameters: Vec<ParameterType>,
    /// Whether every table has its own.
    pub per_table: bool,
    /// Whether it is sent as text even where prepared statements are used (sysbench does so for oltp_insert).
    pub always_text: bool,
}

impl Statement {
    /// The text for table `table`, parameters still as question marks.
    pub fn text(&self, table: u32) -> String {
        self.template.replace("{table}", &table.to_string())
    }
}

/// Where the values of a call come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// None.
    Nothing,
    /// An id.
    Id,
    /// An id and the last id of the range that starts there.
    Range,
    /// A new c and an id.
    TextAndId,
    /// An id that is drawn together with the k of the insert that follows.
    DeletedId,
    /// The row that was just deleted: its id, the k drawn then, new c and pad.
    DeletedRow,
    /// A whole new row; its id is 0 with auto_inc, else unique.
    NewRow,
    /// Points inside the connection's share of the table.
    Points,
    /// Ranges inside the connection's share of the table.
    Ranges,
}

/// One step of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Number of the statement in the definition.
    pub statement: usize,
    /// Where its values come from.
    pub values: Values,
    /// Whether a table is chosen anew before this call; else the one of the call before serves again.
    pub new_table: bool,
}

/// A workload with its options applied.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// All statements it can send.
    pub statements: Vec<Statement>,
    /// One transaction.
    pub calls: Vec<Call>,
}

impl Definition {
    /// An empty workload, to be filled by the functions of [`super::oltp::blocks`].
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            statements: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Adds a statement, and returns its number.
    pub fn statement(&mut self, kind: StatementKind, template: &str, parameters: Vec<ParameterType>) -> usize {
        self.statements.push(Statement {
            kind,
            template: template.to_string(),
            parameters,
            per_table: template.contains("{table}"),
            always_text: false,
        });
        self.statements.len() - 1
    }

    /// Adds `count` calls of a statement on one table, chosen anew before the first.
    pub fn calls(&mut self, statement: usize, values: Values, count: u32) {
        for repeat in 0..count {
            self.calls.push(Call {
                statement,
                values,
                new_table: repeat == 0,
            });
        }
    }

    /// Prepared statements that one connection holds for `tables` tables.
    pub fn prepared_statements(&self, tables: u32) -> u64 {
        let of = |statement: &Statement| match (statement.always_text, statement.per_table) {
            (true, _) => 0,
            (false, true) => u64::from(tables),
            (false, false) => 1,
        };
        self.statements.iter().map(of).sum()
    }
}

/// One of the agents that generate a load together; by default the load is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0.
    pub index: u32,
    /// How many agents there are.
    pub count: u32,
}

impl Default for Part {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}
