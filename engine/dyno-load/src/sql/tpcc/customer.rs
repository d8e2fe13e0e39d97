//! Which customer a Payment or an Order-Status is for: by number, or (60 %) by last name.

use dyno_core::random::RandomStream;

use super::config::TpccConfig;
use super::random::{between, put_last_name};

/// Customers of one name in one district; the commonest of the standard's names have about 20, more are still read.
const EXPECTED_OF_ONE_NAME: usize = 32;

/// The customer asked for, and the customer found.
#[derive(Debug, Default)]
pub struct CustomerChoice {
    /// C_W_ID.
    pub warehouse: u32,
    /// C_D_ID.
    pub district: u32,
    /// Found by name.
    found: Vec<u32>,
    name: Vec<u8>,
    id: Option<u32>,
}

impl CustomerChoice {
    /// Draws name or number (clauses 2.5.1.2 and 2.6.1.2).
    pub fn begin(&mut self, config: &TpccConfig, warehouse: u32, district: u32, stream: &mut RandomStream) {
        self.warehouse = warehouse;
        self.district = district;
        self.name.clear();
        self.id = None;
        if between(stream, 1, 100) <= 60 {
            put_last_name(&mut self.name, config.nurand_constants.last_name(stream));
        } else {
            self.id = Some(config.nurand_constants.customer(stream));
        }
        self.restart();
    }

    /// Forgets what was found by name.
    pub fn restart(&mut self) {
        self.found.clear();
        self.found.reserve(EXPECTED_OF_ONE_NAME);
    }

    /// Whether the name is given.
    pub fn is_by_name(&self) -> bool {
        self.id.is_none()
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Takes a customer of that name, in the order of C_FIRST.
    pub fn found(&mut self, customer: Option<u32>) {
        self.found.extend(customer);
    }

    /// The number; of those of a name the one at n/2 rounded up (clause 2.5.2.2), `None` when there is none.
    pub fn id(&self) -> Option<u32> {
        self.id
            .or_else(|| self.found.get(self.found.len().div_ceil(2).checked_sub(1)?).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_customers_of_one_name_the_middle_one_is_chosen() {
        let of = |found: &[u32]| {
            CustomerChoice {
                found: found.to_vec(),
                ..CustomerChoice::default()
            }
            .id()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some(7));
        assert_eq!(of(&[7, 8]), Some(7));
        assert_eq!(of(&[7, 8, 9]), Some(8));
        assert_eq!(of(&[7, 8, 9, 10]), Some(8));
    }
}
