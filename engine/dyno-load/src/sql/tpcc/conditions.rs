//! The consistency conditions of TPC-C 5.11, clauses 3.3.2.1 to 3.3.2.12, as questions that count their violations.
//!
//! A question is for a range of warehouses: HISTORY has no index on them, and is read once for each range.

/// One condition. `sql` counts violations in a range of warehouses, `{w}`, so that ranges can be checked side by side.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    /// Its number in clause 3.3.2.
    pub number: u32,
    /// What must hold.
    pub text: &'static str,
    /// SELECT of one count.
    pub sql: &'static str,
}

/// All twelve.
///
/// Condition 11 of the standard is for the initial population only (2,100 orders of each district are delivered); here
/// the deliveries since then are added, which its customers' C_DELIVERY_CNT tell. So it holds at any time, and fails when
/// an order is delivered twice.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        number: 1,
        text: "W_YTD = sum(D_YTD)",
        sql: "SELECT COUNT(*) FROM warehouse WHERE w_id {w} AND NOT (w_ytd <=> (SELECT SUM(d_ytd) FROM district WHERE \
              d_w_id = w_id))",
    },
    Condition {
        number: 2,
        text: "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        sql: "SELECT COUNT(*) FROM district WHERE d_w_id {w} AND (NOT (d_next_o_id - 1 <=> (SELECT MAX(o_id) FROM \
              orders WHERE o_w_id = d_w_id AND o_d_id = d_id)) OR d_next_o_id - 1 <> (SELECT MAX(no_o_id) FROM \
              new_orders WHERE no_w_id = d_w_id AND no_d_id = d_id))",
    },
    Condition {
        number: 3,
        text: "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER",
        sql: "SELECT COUNT(*) FROM (SELECT MAX(no_o_id) - MIN(no_o_id) + 1 AS span, COUNT(*) AS present FROM new_orders \
              WHERE no_w_id {w} GROUP BY no_w_id, no_d_id) AS t WHERE span <> present",
    },
    Condition {
        number: 4,
        text: "sum(O_OL_CNT) = rows of ORDER-LINE",
        sql: "SELECT COUNT(*) FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS said FROM orders WHERE o_w_id {w} GROUP BY \
              o_w_id, o_d_id) AS o LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS present FROM order_line WHERE ol_w_id \
              {w} GROUP BY ol_w_id, ol_d_id) AS l ON o_w_id = ol_w_id AND o_d_id = ol_d_id WHERE NOT (said <=> present)",
    },
    Condition {
        number: 5,
        text: "O_CARRIER_ID is null if and only if the order is in NEW-ORDER",
        sql: "SELECT COUNT(*) + (SELECT COUNT(*) FROM new_orders LEFT JOIN orders ON o_w_id = no_w_id AND o_d_id = no_d_id \
              AND o_id = no_o_id WHERE no_w_id {w} AND o_id IS NULL) FROM orders LEFT JOIN new_orders ON no_w_id = \
              o_w_id AND no_d_id = o_d_id AND no_o_id = o_id WHERE o_w_id {w} AND (o_carrier_id IS NULL) <> (no_o_id IS \
              NOT NULL)",
    },
    Condition {
        number: 6,
        text: "O_OL_CNT = rows of ORDER-LINE of the order",
        sql: "SELECT COUNT(*) FROM orders LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS present FROM order_line \
              WHERE ol_w_id {w} GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND \
              ol_o_id = o_id WHERE o_w_id {w} AND \
              NOT (o_ol_cnt <=> present)",
    },
    Condition {
        number: 7,
        text: "OL_DELIVERY_D is null if and only if O_CARRIER_ID is",
        sql: "SELECT COUNT(*) FROM order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
              WHERE ol_w_id {w} AND (o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL))",
    },
    Condition {
        number: 8,
        text: "W_YTD = sum(H_AMOUNT)",
        sql: "SELECT COUNT(*) FROM warehouse LEFT JOIN (SELECT h_w_id, SUM(h_amount) AS paid FROM history WHERE h_w_id {w} \
              GROUP BY h_w_id) AS h ON h_w_id = w_id WHERE w_id {w} AND NOT (w_ytd <=> paid)",
    },
    Condition {
        number: 9,
        text: "D_YTD = sum(H_AMOUNT)",
        sql: "SELECT COUNT(*) FROM district LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history WHERE \
              h_w_id {w} GROUP BY h_w_id, h_d_id) AS h ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_w_id {w} AND NOT (d_ytd <=> paid)",
    },
    Condition {
        number: 10,
        text: "C_BALANCE = sum(delivered OL_AMOUNT) - sum(H_AMOUNT)",
        sql: "SELECT COUNT(*) FROM customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS owed FROM orders \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id {w} AND \
              ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS l ON o_w_id = c_w_id AND o_d_id = c_d_id AND \
              o_c_id = c_id LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history WHERE \
              h_c_w_id {w} GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND \
              h_c_id = c_id WHERE c_w_id {w} AND c_balance <> COALESCE(owed, 0) - COALESCE(paid, 0)",
    },
    Condition {
        number: 11,
        text: "rows of ORDER - rows of NEW-ORDER = 2100 + deliveries since the load",
        sql: "SELECT COUNT(*) FROM district LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS orders FROM orders WHERE o_w_id \
              {w} GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id LEFT JOIN (SELECT no_w_id, no_d_id, \
              COUNT(*) AS waiting FROM new_orders WHERE no_w_id {w} GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id \
              AND no_d_id = d_id LEFT JOIN (SELECT c_w_id, c_d_id, SUM(c_delivery_cnt) AS delivered FROM customer WHERE \
              c_w_id {w} GROUP BY c_w_id, c_d_id) AS c ON c_w_id = d_w_id AND c_d_id = d_id WHERE d_w_id {w} AND NOT \
              (orders - COALESCE(waiting, 0) <=> 2100 + delivered)",
    },
    Condition {
        number: 12,
        text: "C_BALANCE + C_YTD_PAYMENT = sum(delivered OL_AMOUNT)",
        sql: "SELECT COUNT(*) FROM customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS owed FROM orders \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id {w} AND \
              ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS l ON o_w_id = c_w_id AND o_d_id = c_d_id AND \
              o_c_id = c_id WHERE c_w_id {w} AND \
              c_balance + c_ytd_payment <> COALESCE(owed, 0)",
    },
];

impl Condition {
    /// The question for the warehouses `first` to `last`.
    pub fn question(&self, first: u32, last: u32) -> String {
        self.sql.replace("{w}", &format!("BETWEEN {first} AND {last}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_stand_under_their_numbers_and_ask_for_a_range_of_warehouses() {
        for (condition, number) in CONDITIONS.iter().zip(1..) {
            assert_eq!(condition.number, number);
            let question = condition.question(7, 9);
            assert!(
                question.contains("_id BETWEEN 7 AND 9") && !question.contains('{'),
                "{question}"
            );
        }
    }
}
