//! The rules a job's owner chooses: what happens on odd days, after an outage, and when runs would overlap.

/// Defines an enum with one canonical upper-case text per variant, used in JSON, SQL and messages alike.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The canonical text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::policy::UnknownName;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    other => Err($crate::policy::UnknownName { kind: stringify!($name), value: other.to_owned() }),
                }
            }
        }
    };
}
pub(crate) use named;

/// A text that names no variant of the enum it was read as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a {kind}")]
pub struct UnknownName {
    /// The enum that was expected.
    pub kind: &'static str,
    /// The text that was found.
    pub value: String,
}

named! {
    /// What becomes of a wall-clock time that a forward clock change removes.
    DstGap {
        /// Runs once, at the first instant after the gap.
        RunAfter = "RUN_AFTER",
        /// Does not run.
        Skip = "SKIP",
    }
}

named! {
    /// Which pass of a repeated wall-clock time counts when clocks go back.
    DstFold {
        /// The first pass only.
        First = "FIRST",
        /// The second pass only.
        Second = "SECOND",
        /// Both passes, as two occurrences.
        Both = "BOTH",
    }
}

named! {
    /// What becomes of an occurrence on a day that a job's calendars close.
    #[derive(Default)]
    CalendarRule {
        /// It does not happen.
        #[default]
        Skip = "SKIP",
        /// It happens at the same time of the next open day.
        NextDay = "NEXT_DAY",
        /// It happens at the same time of the previous open day.
        PreviousDay = "PREVIOUS_DAY",
    }
}

named! {
    /// What becomes of occurrences that were not released within their grace.
    MisfirePolicy {
        /// None of them runs; each is recorded.
        Skip = "SKIP",
        /// The latest one runs late; the rest are recorded.
        Once = "ONCE",
        /// The newest ones, up to the limits, run oldest first; the rest are recorded.
        CatchUp = "CATCH_UP",
    }
}

named! {
    /// What becomes of an occurrence that comes due while an earlier run of its job is still open.
    OverlapPolicy {
        /// It ends as skipped.
        Forbid = "FORBID",
        /// It starts beside the other.
        Allow = "ALLOW",
        /// One waits; a newer one takes its place.
        Queue = "QUEUE",
        /// The older run is cancelled, then it starts.
        Replace = "REPLACE",
    }
}

impl CalendarRule {
    /// True for the default.
    pub const fn is_skip(&self) -> bool {
        matches!(self, Self::Skip)
    }
}

impl OverlapPolicy {
    /// True when at most one run of the job may hold a lease at any moment.
    pub const fn is_exclusive(self) -> bool {
        !matches!(self, Self::Allow)
    }
}
