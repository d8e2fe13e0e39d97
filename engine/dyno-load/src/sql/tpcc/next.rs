//! What a transaction does next.

/// The next step of a transaction, with what sending its statement gave.
#[derive(Debug)]
pub enum Next<T> {
    /// A statement was sent.
    Sent(T),
    /// An answer is needed first.
    Wait,
    /// The transaction is over.
    End,
}
