//! The four kernels on one thread's piece of the arrays `a`, `b` and `c`.

/// The factor of scale and triad.
pub const SCALAR: f64 = 3.0;

/// One of the four kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// c = a
    Copy,
    /// b = s × c
    Scale,
    /// c = a + b
    Add,
    /// a = b + s × c
    Triad,
}

impl Kernel {
    /// All four in the order in which they are run.
    pub const ALL: [Self; 4] = [Self::Copy, Self::Scale, Self::Add, Self::Triad];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
        }
    }

    /// Words of eight bytes that one element moves.
    pub const fn words(self) -> usize {
        match self {
            Self::Copy | Self::Scale => 2,
            Self::Add | Self::Triad => 3,
        }
    }
}

/// One thread's piece of the three arrays; whoever makes it touches its memory first.
pub struct Piece {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Piece {
    /// Arrays of so many elements, each page written.
    pub fn new(elements: usize) -> Self {
        // vec![0.0; n] would leave pages untouched (calloc); other values write them here and now.
        Self {
            a: vec![1.0; elements],
            b: vec![2.0; elements],
            c: vec![0.5; elements],
        }
    }

    /// Run one kernel over the whole piece.
    pub fn run(&mut self, kernel: Kernel) {
        match kernel {
            Kernel::Copy => self.c.copy_from_slice(&self.a),
            Kernel::Scale => {
                for (b, c) in self.b.iter_mut().zip(&self.c) {
                    *b = SCALAR * c;
                }
            }
            Kernel::Add => {
                for ((c, a), b) in self.c.iter_mut().zip(&self.a).zip(&self.b) {
                    *c = a + b;
                }
            }
            Kernel::Triad => {
                for ((a, b), c) in self.a.iter_mut().zip(&self.b).zip(&self.c) {
                    // Not mul_add: without the CPU feature that is a call of a slow library function.
                    *a = b + SCALAR * c;
                }
            }
        }
    }

    /// The values of one element, to be held against what the kernels must have made of it.
    pub fn element(&self, index: usize) -> [f64; 3] {
        [self.a[index], self.b[index], self.c[index]]
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.a.len()
    }
}

/// What every element must hold after so many rounds of the four kernels.
pub fn expected(rounds: usize) -> [f64; 3] {
    let mut one = Piece::new(1);
    for _ in 0..rounds {
        for kernel in Kernel::ALL {
            one.run(kernel);
        }
    }
    one.element(0)
}

#[cfg(test)]
mod tests {
    use super::{expected, Kernel, Piece};

    #[test]
    fn a_round_computes_what_the_definitions_say() {
        // a=1: copy c=1; scale b=3; add c=1+3=4; triad a=3+3*4=15
        assert_eq!(expected(1), [15.0, 3.0, 4.0]);
    }

    #[test]
    fn every_element_of_a_piece_is_worked_on() {
        let mut piece = Piece::new(1001);
        for kernel in Kernel::ALL {
            piece.run(kernel);
        }
        assert!((0..piece.len()).all(|index| piece.element(index) == expected(1)));
    }
}
