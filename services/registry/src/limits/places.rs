//! How many channels and check-ins a tenant may have. Fixed, because all tenants share what they cost: watchdogs look for
//! something to tell at each channel, and judge each check-in, every second.
//!
//! Invariant: as of jobs, who creates one holds the tenant's limits while it counts; what exists is never measured.

use super::grouped;
use crate::failure::Failure;
use rpc::auth::Caller;
use rpc::status::Exceeded;
use store::{Transaction, tenant_limit};

/// Channels of a tenant.
const CHANNELS_OF_TENANT_MAX: i64 = 100;
/// Check-ins of a tenant.
const CHECK_INS_OF_TENANT_MAX: i64 = 10_000;

/// What has places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Channels.
    Channel,
    /// Check-ins.
    CheckIn,
}

/// The places of the caller's tenant, as far as a transaction may take some.
#[derive(Debug, Default)]
pub struct Places {
    /// It holds the tenant's limits.
    held: bool,
}

impl Places {
    /// Keeps others from taking places until the transaction ends. That lock comes after those of jobs, and before those of
    /// what is queued, named and created.
    ///
    /// # Errors
    /// When the database can't be asked.
    pub async fn hold(tx: &Transaction<'_>, caller: &Caller) -> Result<Self, Failure> {
        tenant_limit::hold(tx, caller.tenant_id).await?;
        Ok(Self { held: true })
    }

    /// As [`Self::hold`], unless the tenant has all of these channels and check-ins.
    ///
    /// # Errors
    /// When the database can't be asked.
    pub async fn hold_for(
        tx: &Transaction<'_>,
        caller: &Caller,
        channels: &[&str],
        check_ins: &[&str],
    ) -> Result<Self, Failure> {
        if tenant_limit::are_there(tx, caller.tenant_id, channels, check_ins).await? {
            return Ok(Self::default());
        }
        Self::hold(tx, caller).await
    }

    /// Refuses `new` of a kind when there is not room for all of them.
    ///
    /// # Errors
    /// [`Failure::OverLimit`]; [`Failure::Overtaken`] when none was to be new: somebody has deleted one since.
    pub async fn check(
        &self,
        tx: &Transaction<'_>,
        caller: &Caller,
        kind: Kind,
        new: usize,
    ) -> Result<(), Failure> {
        if new == 0 {
            return Ok(());
        }
        if !self.held {
            return Err(Failure::Overtaken);
        }
        let (tenant, most) = (caller.tenant_id, kind.most());
        let found = match kind {
            Kind::Channel => tenant_limit::channels(tx, tenant, most + 1).await?,
            Kind::CheckIn => tenant_limit::check_ins(tx, tenant, most + 1).await?,
        };
        let new = i64::try_from(new).unwrap_or(i64::MAX);
        if found.saturating_add(new) <= most { Ok(()) } else { Err(kind.no_room(found, new)) }
    }
}

impl Kind {
    const fn most(self) -> i64 {
        match self {
            Self::Channel => CHANNELS_OF_TENANT_MAX,
            Self::CheckIn => CHECK_INS_OF_TENANT_MAX,
        }
    }

    fn no_room(self, found: i64, new: i64) -> Failure {
        let (limit, things) = match self {
            Self::Channel => ("maxChannels", "channels"),
            Self::CheckIn => ("maxCheckIns", "check-ins"),
        };
        let room = match new {
            1 => "delete one first".to_owned(),
            _ => format!("{} more don't fit: delete some first", grouped(new)),
        };
        let (found, most) = (grouped(found), grouped(self.most()));
        let message = format!("your tenant has {found} of {most} {things}: {room}");
        Failure::OverLimit(vec![Exceeded { limit, field: None, message }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_tenant_is_told_how_full() {
        let told =
            |kind: Kind, found, new| tonic::Status::from(kind.no_room(found, new)).message().to_owned();
        assert_eq!(told(Kind::Channel, 100, 1), "your tenant has 100 of 100 channels: delete one first");
        assert_eq!(
            told(Kind::CheckIn, 9_999, 1_000),
            "your tenant has 9,999 of 10,000 check-ins: 1,000 more don't fit: delete some first"
        );
    }
}
