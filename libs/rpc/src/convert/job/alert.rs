//! What a job's owner is told of.

use super::{Fields, number};
use crate::convert::time;
use crate::v1;
use model::alert::on::On;
use model::job::Alert;
use model::severity::Severity;
use v1::alert_severity::Level;

/// Reads it, complete with defaults.
pub fn read(alert: &v1::JobAlert, fields: &mut Fields<'_>) -> Alert {
    let within = alert.success_within.as_ref();
    let repeat = alert.repeat.as_ref();
    Alert {
        success_within: within
            .and_then(|within| fields.keep(time::duration_of("alert.successWithin", within))),
        channels: alert.channels.clone(),
        disabled: alert.disabled,
        on: alert.on.as_ref().map(|on| read_on(on, fields)).unwrap_or_default(),
        repeat: repeat.and_then(|repeat| fields.keep(time::duration_of("alert.repeat", repeat))),
        severity: fields.named(
            "alert.severity",
            alert.severity(),
            alert.severity,
            Severity::default(),
            |level| level.as_str_name(),
        ),
    }
}

fn read_on(on: &v1::AlertOn, fields: &mut Fields<'_>) -> On {
    let over = on.runtime_over.as_ref();
    On {
        failed: on.failed,
        failures_in_row: (on.failures_in_row != 0)
            .then(|| fields.number("alert.on.failuresInRow", on.failures_in_row, 2)),
        runtime_over: over.and_then(|over| fields.keep(time::duration_of("alert.on.runtimeOver", over))),
        skipped_by_overlap: on.skipped_by_overlap,
        recovered: on.recovered,
    }
}

/// Writes it.
pub fn write(alert: &Alert) -> v1::JobAlert {
    v1::JobAlert {
        success_within: alert.success_within.map(time::duration),
        channels: alert.channels.clone(),
        disabled: alert.disabled,
        on: (!alert.on.is_nothing()).then(|| v1::AlertOn {
            failed: alert.on.failed,
            failures_in_row: alert.on.failures_in_row.unwrap_or_default().into(),
            runtime_over: alert.on.runtime_over.map(time::duration),
            skipped_by_overlap: alert.on.skipped_by_overlap,
            recovered: alert.on.recovered,
        }),
        repeat: alert.repeat.map(time::duration),
        severity: number(Level::from_str_name(alert.severity.as_str())),
    }
}
