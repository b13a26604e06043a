//! What can go wrong at the database, and in one table what to do about it. Callers never match driver errors.

use tokio_postgres::error::SqlState;

/// A statement, connection or migration that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No connection could be had from the pool in time.
    #[error("no connection to PostgreSQL for {operation}")]
    Connect {
        /// What was to be done.
        operation: &'static str,
        /// The pool's error.
        #[source]
        source: deadpool_postgres::PoolError,
    },
    /// Server and client don't trust each other.
    #[error("no TLS to PostgreSQL for {operation}: {problem}")]
    Tls {
        /// What was to be done.
        operation: &'static str,
        /// Who does not trust whom, and why.
        problem: &'static str,
        /// The pool's error.
        #[source]
        source: deadpool_postgres::PoolError,
    },
    /// PostgreSQL refused or lost a statement.
    #[error("PostgreSQL failed at {operation}")]
    Database {
        /// What was to be done.
        operation: &'static str,
        /// The driver's error.
        #[source]
        source: tokio_postgres::Error,
    },
    /// The settings can't be used.
    #[error("the PostgreSQL settings are wrong: {0}")]
    Settings(String),
    /// A migration failed.
    #[error("migrating the schema of cell {cell:?} failed")]
    Migrate {
        /// The cell.
        cell: String,
        /// The runner's error.
        #[source]
        source: Box<refinery::Error>,
    },
    /// The fence of a role no longer names this leadership: a later one leads. Nothing was written.
    #[error("the fence of {role} refused revision {revision}: a later leadership holds it")]
    Fenced {
        /// `ticker` or `watchdog`.
        role: &'static str,
        /// Ours.
        revision: i64,
    },
    /// A stored value is not one that this version knows.
    #[error("{what} in the database is not readable: {problem}")]
    Corrupt {
        /// Table and column.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// What a caller may do with a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same transaction may succeed at once: a deadlock or a serialisation conflict.
    AtOnce,
    /// The server or the way to it is the matter: try again later, on another connection.
    Later,
    /// A row of the input is the matter: split the batch and find it.
    Split,
    /// It will fail the same way again.
    Never,
}

impl StoreError {
    /// Wraps a driver error with what was being done; for `map_err`.
    pub(crate) fn at(operation: &'static str) -> impl Fn(tokio_postgres::Error) -> Self {
        move |source| Self::Database { operation, source }
    }

    /// Wraps the pool's error with what was being done.
    pub(crate) fn connecting(operation: &'static str, source: deadpool_postgres::PoolError) -> Self {
        match crate::connect::tls::explain(&source) {
            Some(problem) => Self::Tls { operation, problem, source },
            None => Self::Connect { operation, source },
        }
    }

    /// The one table of what is worth trying again.
    pub fn retry(&self) -> Retry {
        match self {
            // Files of TLS are read again.
            Self::Connect { .. } | Self::Tls { .. } => Retry::Later,
            Self::Database { source, .. } => match source.code() {
                None => Retry::Later, // the connection broke
                Some(code) => classify(code),
            },
            Self::Settings(_) | Self::Migrate { .. } | Self::Fenced { .. } | Self::Corrupt { .. } => {
                Retry::Never
            }
        }
    }

    /// True when a lock was not to be had in time.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Database { source, .. } if source.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }

    /// True when a statement was ended because it took too long, or a lock was not to be had in time.
    pub fn is_out_of_time(&self) -> bool {
        matches!(self, Self::Database { source, .. } if source.code() == Some(&SqlState::QUERY_CANCELED))
            || self.is_busy()
    }

    /// True when a unique index refused a row; `constraint` is its name.
    pub fn violates(&self, constraint: &str) -> bool {
        match self {
            Self::Database { source, .. } => source.as_db_error().is_some_and(|error| {
                *error.code() == SqlState::UNIQUE_VIOLATION && error.constraint() == Some(constraint)
            }),
            _ => false,
        }
    }
}

fn classify(code: &SqlState) -> Retry {
    const AT_ONCE: [SqlState; 2] = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    const LATER: [SqlState; 8] = [
        SqlState::LOCK_NOT_AVAILABLE,        // lock_timeout
        SqlState::QUERY_CANCELED,            // statement_timeout
        SqlState::READ_ONLY_SQL_TRANSACTION, // a demoted primary
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    if AT_ONCE.contains(code) {
        return Retry::AtOnce;
    }
    // Classes: 08 connection, 53 resources, 57 operator; 22 data, 23 constraint.
    match code.code().get(..2) {
        _ if LATER.contains(code) => Retry::Later,
        Some("08" | "53" | "57") => Retry::Later,
        Some("22" | "23") => Retry::Split,
        _ => Retry::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_classified_by_what_helps() {
        for (code, expected) in [
            (SqlState::T_R_DEADLOCK_DETECTED, Retry::AtOnce),
            (SqlState::LOCK_NOT_AVAILABLE, Retry::Later),
            (SqlState::READ_ONLY_SQL_TRANSACTION, Retry::Later),
            (SqlState::CONNECTION_FAILURE, Retry::Later),
            (SqlState::DISK_FULL, Retry::Later),
            (SqlState::CHECK_VIOLATION, Retry::Split),
            (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, Retry::Split),
            (SqlState::UNDEFINED_TABLE, Retry::Never),
        ] {
            assert_eq!(classify(&code), expected, "{}", code.code());
        }
    }
}
