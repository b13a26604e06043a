//! How grave an alert is, from the one that may wait to the one that gets somebody out of bed.

use crate::policy::named;

named! {
    /// How grave an alert is, in ascending order.
    #[derive(Default)]
    Severity {
        /// Good to know.
        Info = "INFO",
        /// To be looked at in working hours.
        Warning = "WARNING",
        /// To be looked at now.
        #[default]
        Critical = "CRITICAL",
    }
}
