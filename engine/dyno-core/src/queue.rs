//! A queue of which there is seldom more than one element.

use std::collections::VecDeque;

/// First in, first out. The oldest element lies in the queue itself, beside what is used with it, and not behind a pointer.
#[derive(Debug, Clone)]
pub struct Queue<T> {
    front: Option<T>,
    /// Empty where there is no front.
    later: VecDeque<T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            front: None,
            later: VecDeque::new(),
        }
    }
}

impl<T> Queue<T> {
    /// An empty queue that allocates nothing for up to `count` elements.
    pub fn with_capacity(count: usize) -> Self {
        Self {
            front: None,
            later: VecDeque::with_capacity(count.saturating_sub(1)),
        }
    }

    /// Puts an element behind the others.
    #[inline]
    pub fn push_back(&mut self, element: T) {
        if self.front.is_none() {
            self.front = Some(element);
        } else {
            self.later.push_back(element);
        }
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let oldest = self.front.take();
        if !self.later.is_empty() {
            self.front = self.later.pop_front();
        }
        oldest
    }

    /// The oldest.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.front.as_ref()
    }

    /// The oldest, to be changed.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.front.as_mut()
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.front.iter().chain(&self.later)
    }

    /// All of them, the oldest first, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.front.iter_mut().chain(&mut self.later)
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.front.is_some()) + self.later.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// Drops all, and keeps the memory.
    pub fn clear(&mut self) {
        self.front = None;
        self.later.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first_however_many_there_are() {
        let mut queue = Queue::with_capacity(3);
        let mut next = 0..;
        let mut taken = Vec::new();
        for burst in [1, 3, 1, 2] {
            for number in next.by_ref().take(burst) {
                queue.push_back(number);
            }
            assert_eq!((queue.len(), queue.is_empty()), (burst, false));
            assert_eq!(queue.front(), queue.iter().next());
            *queue.front_mut().unwrap() += 100;
            assert_eq!(queue.iter_mut().count(), burst);
            while let Some(number) = queue.pop_front() {
                taken.push(number);
            }
            assert!(queue.is_empty());
        }
        assert_eq!(taken, [100, 101, 2, 3, 104, 105, 6]);
        queue.push_back(7);
        queue.push_back(8);
        queue.clear();
        assert_eq!(queue.pop_front(), None);
    }
}
