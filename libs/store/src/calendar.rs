//! Calendars: named sets of dates, kept by version. A version never changes, so that whoever has read one may keep it.

use crate::{StoreError, Transaction, sql};
use chrono::NaiveDate;
use model::calendar::CalendarVersion;
use model::ids::TenantId;

/// The dates of these versions, in no order; a missing one does not exist.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn dates(
    tx: &Transaction<'_>,
    versions: impl IntoIterator<Item = &(TenantId, CalendarVersion)>,
) -> Result<Vec<((TenantId, CalendarVersion), Vec<NaiveDate>)>, StoreError> {
    let (mut tenants, mut names, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (tenant, version) in versions {
        tenants.push(tenant.0);
        names.push(version.name.as_str());
        numbers.push(version.version);
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let rows = tx.query(sql!("calendar/dates.sql"), &[&tenants, &names, &numbers]).await?;
    let read = rows.iter().map(|row| {
        let version = CalendarVersion { name: row.get("name"), version: row.get("version") };
        ((TenantId(row.get("tenant_id")), version), row.get("dates"))
    });
    Ok(read.collect())
}
