//! The SQL of the five transactions: client SQL, statement for statement that of tpcc-mysql with what it lacks, and
//! the same as stored procedures.
//!
//! Added: the columns that conditions 10 and 12 and the standard want (S_YTD, S_ORDER_CNT, S_REMOTE_CNT,
//! C_YTD_PAYMENT, C_PAYMENT_CNT), and locks where a consistent read would see an old row (the oldest new order, the
//! order's customer, C_DATA). Amounts are CAST to DECIMAL: in an expression the server would take a text for a float.
//!
//! A procedure takes one round trip, and only what MySQL 5.5 and every later server understand. Lists come as texts
//! with commas. A failed statement ends the procedure with its error; the client then rolls back and tries again, as
//! with client SQL. Each ends with a row: the order's number or 0 for the rollback that is asked for (New-Order),
//! skipped districts (Delivery).

use dyno_mysql::blocking::Client;

use crate::error::Error;
use crate::sql::definition::{Definition, StatementKind};
use crate::sql::server::failed;

/// A statement's number in the definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Id {
    /// End of a transaction.
    Commit,
    /// Its undoing.
    Rollback,
    /// New-Order: the customer and the warehouse's tax.
    NewOrderCustomer,
    /// New-Order: the district's next order, locked.
    NewOrderDistrict,
    /// New-Order: the district's next order, raised.
    NewOrderNext,
    /// New-Order: the order.
    NewOrderOrder,
    /// New-Order: its row in NEW-ORDER.
    NewOrderNew,
    /// New-Order: an item.
    NewOrderItem,
    /// New-Order: its stock, locked.
    NewOrderStock,
    /// New-Order: its stock, changed.
    NewOrderTake,
    /// New-Order: a line.
    NewOrderLine,
    /// Payment: W_YTD.
    PaymentWarehouse,
    /// Payment: the warehouse's address.
    PaymentWarehouseAddress,
    /// Payment: D_YTD.
    PaymentDistrict,
    /// Payment: the district's address.
    PaymentDistrictAddress,
    /// Payment and Order-Status: how many customers have that name.
    CountByName,
    /// Payment: the customers of that name.
    PaymentByName,
    /// Payment: the customer, locked.
    PaymentCustomer,
    /// Payment: C_DATA of a customer with bad credit, locked.
    PaymentData,
    /// Payment: the customer with bad credit, changed.
    PaymentChangeBad,
    /// Payment: the customer with good credit, changed.
    PaymentChangeGood,
    /// Payment: its row in HISTORY.
    PaymentHistory,
    /// Order-Status: the customers of that name.
    StatusByName,
    /// Order-Status: the customer.
    StatusById,
    /// Order-Status: the last order.
    StatusOrder,
    /// Order-Status: its lines.
    StatusLines,
    /// Delivery: a district's oldest new order, locked.
    DeliveryOldest,
    /// Delivery: its row in NEW-ORDER, gone.
    DeliveryDelete,
    /// Delivery: its customer.
    DeliveryOrder,
    /// Delivery: its carrier.
    DeliveryCarrier,
    /// Delivery: the date in its lines.
    DeliveryLines,
    /// Delivery: the sum of its lines.
    DeliverySum,
    /// Delivery: the customer's balance.
    DeliveryCustomer,
    /// Stock-Level: the district's next order.
    LevelDistrict,
    /// Stock-Level: the items of its last twenty orders.
    LevelItems,
    /// Stock-Level: whether one item's stock is low.
    LevelStock,
    /// Stock-Level: both at once, the standard's own way.
    LevelJoin,
    /// New-Order as a stored procedure.
    CallNewOrder,
    /// Payment as a stored procedure.
    CallPayment,
    /// Order-Status as a stored procedure.
    CallOrderStatus,
    /// Delivery as a stored procedure.
    CallDelivery,
    /// Stock-Level as a stored procedure.
    CallStockLevel,
}

use StatementKind::{Commit, Delete, Insert, Procedure, Rollback, Select, SelectForUpdate, Update};

const TEXTS: [(Id, StatementKind, &str); 42] = [
    (Id::Commit, Commit, "COMMIT"),
    (Id::Rollback, Rollback, "ROLLBACK"),
    (Id::NewOrderCustomer, Select, "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = ? AND c_w_id = w_id AND c_d_id = ? AND c_id = ?"),
    (Id::NewOrderDistrict, SelectForUpdate, "SELECT d_next_o_id, d_tax FROM district WHERE d_id = ? AND d_w_id = ? FOR UPDATE"),
    (Id::NewOrderNext, Update, "UPDATE district SET d_next_o_id = ? + 1 WHERE d_id = ? AND d_w_id = ?"),
    (Id::NewOrderOrder, Insert, "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (?, ?, ?, ?, NOW(), ?, ?)"),
    (Id::NewOrderNew, Insert, "INSERT INTO new_orders (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)"),
    (Id::NewOrderItem, Select, "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?"),
    (Id::NewOrderStock, SelectForUpdate, "SELECT s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE"),
    (Id::NewOrderTake, Update, "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ? WHERE s_i_id = ? AND s_w_id = ?"),
    (Id::NewOrderLine, Insert, "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    (Id::PaymentWarehouse, Update, "UPDATE warehouse SET w_ytd = w_ytd + CAST(? AS DECIMAL(12,2)) WHERE w_id = ?"),
    (Id::PaymentWarehouseAddress, Select, "SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name FROM warehouse WHERE w_id = ?"),
    (Id::PaymentDistrict, Update, "UPDATE district SET d_ytd = d_ytd + CAST(? AS DECIMAL(12,2)) WHERE d_w_id = ? AND d_id = ?"),
    (Id::PaymentDistrictAddress, Select, "SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name FROM district WHERE d_w_id = ? AND d_id = ?"),
    (Id::CountByName, Select, "SELECT COUNT(c_id) FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ?"),
    (Id::PaymentByName, Select, "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first"),
    (Id::PaymentCustomer, SelectForUpdate, "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, c_credit_lim, c_discount, c_balance, c_since FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE"),
    (Id::PaymentData, SelectForUpdate, "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE"),
    (Id::PaymentChangeBad, Update, "UPDATE customer SET c_balance = c_balance - CAST(? AS DECIMAL(12,2)), c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(12,2)), c_payment_cnt = c_payment_cnt + 1, c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),
    (Id::PaymentChangeGood, Update, "UPDATE customer SET c_balance = c_balance - CAST(? AS DECIMAL(12,2)), c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(12,2)), c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),
    (Id::PaymentHistory, Insert, "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (?, ?, ?, ?, ?, NOW(), ?, ?)"),
    (Id::StatusByName, Select, "SELECT c_id, c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first"),
    (Id::StatusById, Select, "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),
    (Id::StatusOrder, Select, "SELECT o_id, o_entry_d, COALESCE(o_carrier_id, 0) FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? AND o_id = (SELECT MAX(o_id) FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?)"),
    (Id::StatusLines, Select, "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"),
    (Id::DeliveryOldest, SelectForUpdate, "SELECT no_o_id FROM new_orders WHERE no_d_id = ? AND no_w_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE"),
    (Id::DeliveryDelete, Delete, "DELETE FROM new_orders WHERE no_o_id = ? AND no_d_id = ? AND no_w_id = ?"),
    (Id::DeliveryOrder, SelectForUpdate, "SELECT o_c_id FROM orders WHERE o_id = ? AND o_d_id = ? AND o_w_id = ? FOR UPDATE"),
    (Id::DeliveryCarrier, Update, "UPDATE orders SET o_carrier_id = ? WHERE o_id = ? AND o_d_id = ? AND o_w_id = ?"),
    (Id::DeliveryLines, Update, "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_o_id = ? AND ol_d_id = ? AND ol_w_id = ?"),
    (Id::DeliverySum, Select, "SELECT SUM(ol_amount) FROM order_line WHERE ol_o_id = ? AND ol_d_id = ? AND ol_w_id = ?"),
    (Id::DeliveryCustomer, Update, "UPDATE customer SET c_balance = c_balance + CAST(? AS DECIMAL(12,2)), c_delivery_cnt = c_delivery_cnt + 1 WHERE c_id = ? AND c_d_id = ? AND c_w_id = ?"),
    (Id::LevelDistrict, Select, "SELECT d_next_o_id FROM district WHERE d_id = ? AND d_w_id = ?"),
    (Id::LevelItems, Select, "SELECT DISTINCT ol_i_id FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= (? - 20)"),
    (Id::LevelStock, Select, "SELECT COUNT(*) FROM stock WHERE s_w_id = ? AND s_i_id = ? AND s_quantity < ?"),
    (Id::LevelJoin, Select, "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= (? - 20) AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?"),
    (Id::CallNewOrder, Procedure, "CALL dyno_new_order(?, ?, ?, ?, ?, ?, ?, ?)"),
    (Id::CallPayment, Procedure, "CALL dyno_payment(?, ?, ?, ?, ?, ?, ?)"),
    (Id::CallOrderStatus, Procedure, "CALL dyno_order_status(?, ?, ?, ?)"),
    (Id::CallDelivery, Procedure, "CALL dyno_delivery(?, ?)"),
    (Id::CallStockLevel, Procedure, "CALL dyno_stock_level(?, ?, ?)"),
];

/// All statements, each at the place of its number; prepared are those that are used, as client SQL or as procedures.
pub fn definition(stored_procedures: bool) -> Definition {
    let mut definition = Definition::new("tpcc");
    for (id, kind, text) in TEXTS {
        let place = definition.statement(kind, text, Vec::new());
        assert_eq!(place, id as usize, "the statement {id:?} is not at its place");
        let used = matches!(kind, Commit | Rollback) || (kind == Procedure) == stored_procedures;
        definition.statements[place].always_text = !used;
    }
    definition
}

/// Names and definitions.
const PROCEDURES: [(&str, &str); 5] = [
    (
        "dyno_new_order",
        "(in_w INT, in_d INT, in_c INT, in_lines INT, in_all_local INT, in_items TEXT, in_supplies TEXT, in_quantities TEXT)
BEGIN
  DECLARE v_discount, v_w_tax, v_d_tax DECIMAL(5,4);
  DECLARE v_last VARCHAR(16); DECLARE v_credit CHAR(2);
  DECLARE v_order, v_item, v_supply, v_quantity, v_stock INT;
  DECLARE v_price DECIMAL(5,2); DECLARE v_name VARCHAR(24); DECLARE v_item_data, v_stock_data VARCHAR(50);
  DECLARE v_information CHAR(24);
  DECLARE v_line INT DEFAULT 1;
  DECLARE v_missing INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_missing = 1;
  SELECT c_discount, c_last, c_credit, w_tax INTO v_discount, v_last, v_credit, v_w_tax FROM customer, warehouse WHERE w_id = in_w AND c_w_id = w_id AND c_d_id = in_d AND c_id = in_c;
  SELECT d_next_o_id, d_tax INTO v_order, v_d_tax FROM district WHERE d_id = in_d AND d_w_id = in_w FOR UPDATE;
  IF v_missing = 1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the customer or the district is not there'; END IF;
  UPDATE district SET d_next_o_id = v_order + 1 WHERE d_id = in_d AND d_w_id = in_w;
  INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (v_order, in_d, in_w, in_c, NOW(), in_lines, in_all_local);
  INSERT INTO new_orders (no_o_id, no_d_id, no_w_id) VALUES (v_order, in_d, in_w);
  WHILE v_line <= in_lines AND v_missing = 0 DO
    SET v_item = SUBSTRING_INDEX(SUBSTRING_INDEX(in_items, ',', v_line), ',', -1);
    SET v_supply = SUBSTRING_INDEX(SUBSTRING_INDEX(in_supplies, ',', v_line), ',', -1);
    SET v_quantity = SUBSTRING_INDEX(SUBSTRING_INDEX(in_quantities, ',', v_line), ',', -1);
    SELECT i_price, i_name, i_data INTO v_price, v_name, v_item_data FROM item WHERE i_id = v_item;
    IF v_missing = 0 THEN
      SELECT s_quantity, s_data, ELT(in_d, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10) INTO v_stock, v_stock_data, v_information FROM stock WHERE s_i_id = v_item AND s_w_id = v_supply FOR UPDATE;
      UPDATE stock SET s_quantity = IF(v_stock >= v_quantity + 10, v_stock - v_quantity, v_stock - v_quantity + 91), s_ytd = s_ytd + v_quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (v_supply <> in_w) WHERE s_i_id = v_item AND s_w_id = v_supply;
      INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES (v_order, in_d, in_w, v_line, v_item, v_supply, v_quantity, v_price * v_quantity, v_information);
      SET v_line = v_line + 1;
    END IF;
  END WHILE;
  IF v_missing = 1 THEN ROLLBACK; SELECT 0; ELSE COMMIT; SELECT v_order; END IF;
END",
    ),
    (
        "dyno_payment",
        "(in_w INT, in_d INT, in_c_w INT, in_c_d INT, in_c INT, in_last VARCHAR(16), in_amount DECIMAL(12,2))
BEGIN
  DECLARE v_street_1, v_street_2, v_city VARCHAR(20); DECLARE v_state CHAR(2); DECLARE v_zip CHAR(9);
  DECLARE v_w_name, v_d_name VARCHAR(10);
  DECLARE v_first, v_last VARCHAR(16); DECLARE v_middle, v_credit CHAR(2); DECLARE v_phone CHAR(16);
  DECLARE v_limit, v_balance DECIMAL(14,2); DECLARE v_discount DECIMAL(5,4); DECLARE v_since DATETIME;
  DECLARE v_data VARCHAR(500);
  DECLARE v_customer, v_count, v_place INT;
  UPDATE warehouse SET w_ytd = w_ytd + in_amount WHERE w_id = in_w;
  SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name INTO v_street_1, v_street_2, v_city, v_state, v_zip, v_w_name FROM warehouse WHERE w_id = in_w;
  UPDATE district SET d_ytd = d_ytd + in_amount WHERE d_w_id = in_w AND d_id = in_d;
  SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name INTO v_street_1, v_street_2, v_city, v_state, v_zip, v_d_name FROM district WHERE d_w_id = in_w AND d_id = in_d;
  SET v_customer = in_c;
  IF in_c = 0 THEN
    SELECT COUNT(c_id) INTO v_count FROM customer WHERE c_w_id = in_c_w AND c_d_id = in_c_d AND c_last = in_last;
    IF v_count = 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no customer has that name'; END IF;
    SET v_place = CEIL(v_count / 2) - 1;
    SELECT c_id INTO v_customer FROM customer WHERE c_w_id = in_c_w AND c_d_id = in_c_d AND c_last = in_last ORDER BY c_first LIMIT v_place, 1;
  END IF;
  SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, c_credit_lim, c_discount, c_balance, c_since INTO v_first, v_middle, v_last, v_street_1, v_street_2, v_city, v_state, v_zip, v_phone, v_credit, v_limit, v_discount, v_balance, v_since FROM customer WHERE c_w_id = in_c_w AND c_d_id = in_c_d AND c_id = v_customer FOR UPDATE;
  IF v_credit = 'BC' THEN
    SELECT c_data INTO v_data FROM customer WHERE c_w_id = in_c_w AND c_d_id = in_c_d AND c_id = v_customer FOR UPDATE;
    UPDATE customer SET c_balance = c_balance - in_amount, c_ytd_payment = c_ytd_payment + in_amount, c_payment_cnt = c_payment_cnt + 1, c_data = LEFT(CONCAT(v_customer, ' ', in_c_d, ' ', in_c_w, ' ', in_d, ' ', in_w, ' ', in_amount, ' ', v_data), 500) WHERE c_w_id = in_c_w AND c_d_id = in_c_d AND c_id = v_customer;
  ELSE
    UPDATE customer SET c_balance = c_balance - in_amount, c_ytd_payment = c_ytd_payment + in_amount, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = in_c_w AND c_d_id = in_c_d AND c_id = v_customer;
  END IF;
  INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (in_c_d, in_c_w, v_customer, in_d, in_w, NOW(), in_amount, CONCAT(v_w_name, '    ', v_d_name));
  COMMIT;
  SELECT v_customer;
END",
    ),
    (
        "dyno_order_status",
        "(in_w INT, in_d INT, in_c INT, in_last VARCHAR(16))
BEGIN
  DECLARE v_customer, v_count, v_place, v_order INT;
  SET v_customer = in_c;
  IF in_c = 0 THEN
    SELECT COUNT(c_id) INTO v_count FROM customer WHERE c_w_id = in_w AND c_d_id = in_d AND c_last = in_last;
    IF v_count = 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no customer has that name'; END IF;
    SET v_place = CEIL(v_count / 2) - 1;
    SELECT c_id INTO v_customer FROM customer WHERE c_w_id = in_w AND c_d_id = in_d AND c_last = in_last ORDER BY c_first LIMIT v_place, 1;
  END IF;
  SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = in_w AND c_d_id = in_d AND c_id = v_customer;
  SELECT MAX(o_id) INTO v_order FROM orders WHERE o_w_id = in_w AND o_d_id = in_d AND o_c_id = v_customer;
  SELECT o_id, o_entry_d, COALESCE(o_carrier_id, 0) FROM orders WHERE o_w_id = in_w AND o_d_id = in_d AND o_id = v_order;
  SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = in_w AND ol_d_id = in_d AND ol_o_id = v_order;
  COMMIT;
END",
    ),
    (
        "dyno_delivery",
        "(in_w INT, in_carrier INT)
BEGIN
  DECLARE v_order, v_customer INT;
  DECLARE v_sum DECIMAL(14,2);
  DECLARE v_district INT DEFAULT 1;
  DECLARE v_skipped INT DEFAULT 0;
  DECLARE v_missing INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_missing = 1;
  WHILE v_district <= 10 DO
    SET v_missing = 0;
    SELECT no_o_id INTO v_order FROM new_orders WHERE no_d_id = v_district AND no_w_id = in_w ORDER BY no_o_id LIMIT 1 FOR UPDATE;
    IF v_missing = 1 THEN
      SET v_skipped = v_skipped + 1;
    ELSE
      DELETE FROM new_orders WHERE no_o_id = v_order AND no_d_id = v_district AND no_w_id = in_w;
      SELECT o_c_id INTO v_customer FROM orders WHERE o_id = v_order AND o_d_id = v_district AND o_w_id = in_w FOR UPDATE;
      UPDATE orders SET o_carrier_id = in_carrier WHERE o_id = v_order AND o_d_id = v_district AND o_w_id = in_w;
      UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_o_id = v_order AND ol_d_id = v_district AND ol_w_id = in_w;
      SELECT SUM(ol_amount) INTO v_sum FROM order_line WHERE ol_o_id = v_order AND ol_d_id = v_district AND ol_w_id = in_w;
      UPDATE customer SET c_balance = c_balance + v_sum, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_id = v_customer AND c_d_id = v_district AND c_w_id = in_w;
    END IF;
    SET v_district = v_district + 1;
  END WHILE;
  COMMIT;
  SELECT v_skipped;
END",
    ),
    (
        "dyno_stock_level",
        "(in_w INT, in_d INT, in_threshold INT)
BEGIN
  DECLARE v_next INT;
  SELECT d_next_o_id INTO v_next FROM district WHERE d_id = in_d AND d_w_id = in_w;
  SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = in_w AND ol_d_id = in_d AND ol_o_id < v_next AND ol_o_id >= v_next - 20 AND s_w_id = in_w AND s_i_id = ol_i_id AND s_quantity < in_threshold;
  COMMIT;
END",
    ),
];

/// Makes the procedures anew in the client's database.
///
/// # Errors
/// When the server refuses; the account needs CREATE ROUTINE, ALTER ROUTINE and EXECUTE.
pub fn create_procedures(client: &mut Client) -> Result<(), Error> {
    drop_procedures(client)?;
    for (name, body) in PROCEDURES {
        client
            .exec(&format!("CREATE PROCEDURE {name} {body}"))
            .map_err(|error| failed(&format!("CREATE PROCEDURE {name}"), &error))?;
    }
    Ok(())
}

/// Drops them; those that are not there are no error.
///
/// # Errors
/// When the server refuses.
pub fn drop_procedures(client: &mut Client) -> Result<(), Error> {
    for (name, _) in PROCEDURES {
        let sql = format!("DROP PROCEDURE IF EXISTS {name}");
        client.exec(&sql).map_err(|error| failed(&sql, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_is_at_its_place() {
        assert_eq!(definition(false).statements.len(), Id::CallStockLevel as usize + 1);
        assert_eq!(definition(false).prepared_statements(1), 37);
        assert_eq!(
            definition(true).prepared_statements(1),
            7,
            "five procedures, COMMIT and ROLLBACK"
        );
    }
}
