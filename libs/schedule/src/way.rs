//! The two ways in which a search walks.

/// Forward or backward in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To later instants.
    Forward,
    /// To earlier instants.
    Backward,
}

impl Way {
    /// `from`, and `count` further in this way.
    pub(crate) const fn from(self, from: i64, count: i64) -> i64 {
        match self {
            Self::Forward => from + count,
            Self::Backward => from - count,
        }
    }

    /// The other way.
    pub(crate) const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }

    /// True when `a` lies beyond `b`.
    pub(crate) const fn is_beyond(self, a: i64, b: i64) -> bool {
        match self {
            Self::Forward => a > b,
            Self::Backward => a < b,
        }
    }

    /// The one of both that is reached last.
    pub(crate) fn farther(self, a: i64, b: i64) -> i64 {
        if self.is_beyond(a, b) { a } else { b }
    }

    /// The one of both that is reached first.
    pub(crate) fn nearer(self, a: i64, b: i64) -> i64 {
        self.reversed().farther(a, b)
    }
}
