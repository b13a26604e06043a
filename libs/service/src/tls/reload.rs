//! Looks at the files every two seconds, and puts what they hold in place of what was there if it can be used.

use super::{Files, Material};
use crate::config::Problem;
use crate::telemetry::meter;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge};
use rustls::ServerConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Certificates are replaced weeks before they expire; this is for whoever watches it happen.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Follows the files until nobody uses them any more. They are read whole each time: names, times and inodes say less
/// than the contents, and the three are a few kilobytes.
pub(super) async fn run(files: Files, mut used: Material, sender: watch::Sender<Arc<ServerConfig>>) {
    let metrics = Metrics::new();
    let mut trouble: Option<Problem> = None;
    loop {
        tokio::select! {
            () = sender.closed() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let looked = {
            let files = files.clone();
            let looking = tokio::task::spawn_blocking(move || look(&files, used)).await;
            // A panic in there has taken what was used with it; the listeners go on with what they have.
            let Ok(looked) = looking else { return };
            looked
        };
        used = looked.used;
        match looked.found {
            Ok(None) => trouble = None,
            Ok(Some(config)) => {
                sender.send_replace(Arc::new(config));
                metrics.loaded();
                trouble = None;
                tracing::info!(tls.certificate = %files.certificate.display(), "Took the new TLS files");
            }
            Err(problem) => {
                // Between two writes a pair does not fit; said once, whichever it is.
                if trouble.as_ref() != Some(&problem) {
                    metrics.refused();
                    tracing::error!(
                        error = %problem,
                        "The new TLS files can't be used: going on with the ones before"
                    );
                }
                trouble = Some(problem);
            }
        }
        metrics.unusable(trouble.is_some());
    }
}

struct Looked {
    used: Material,
    found: Result<Option<ServerConfig>, Problem>,
}

fn look(files: &Files, used: Material) -> Looked {
    let material = match files.read() {
        Ok(material) if material == used => return Looked { used, found: Ok(None) },
        Ok(material) => material,
        Err(problem) => return Looked { used, found: Err(problem) },
    };
    match files.configured(&material) {
        Ok(config) => Looked { used: material, found: Ok(Some(config)) },
        Err(problem) => Looked { used, found: Err(problem) },
    }
}

struct Metrics {
    reloads: Counter<u64>,
    unusable: Gauge<u64>,
}

impl Metrics {
    fn new() -> Self {
        let meter = meter("escapement_service");
        let reloads = meter
            .u64_counter("tls.reloads")
            .with_description("Changes of the TLS files, by whether they were taken or refused")
            .build();
        let unusable = meter
            .u64_gauge("tls.files.unusable")
            .with_description("1 while the TLS files on the disk can't be used and older ones are")
            .build();
        unusable.record(0, &[]);
        Self { reloads, unusable }
    }

    fn loaded(&self) {
        self.reloads.add(1, &[KeyValue::new("outcome", "taken")]);
    }

    fn refused(&self) {
        self.reloads.add(1, &[KeyValue::new("outcome", "refused")]);
    }

    fn unusable(&self, unusable: bool) {
        self.unusable.record(u64::from(unusable), &[]);
    }
}
