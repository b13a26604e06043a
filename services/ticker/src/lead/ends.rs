//! The two ends of a leadership: raising the fence and beginning its term, and noting how it ended.

use super::{AGAIN_AFTER, End, Lead, Reign};
use service::health::Beat;
use std::time::Instant;
use store::StoreError;
use store::fence::{self, Raised, Term};
use store::term::{self, Began, Process};
use tokio_util::sync::CancellationToken;

impl Lead {
    /// Raises the fence and begins the term, however long the database is away; some end when the leadership ends
    /// before that.
    pub(super) async fn begin(
        &self,
        reign: &mut Reign<'_>,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> Option<End> {
        let term = reign.planner.term;
        loop {
            beat.beat();
            match self.raise(term).await {
                Ok(Ok(began)) => {
                    reign.committed = Instant::now();
                    self.database.met();
                    welcome(term, &began);
                    return None;
                }
                Ok(Err(stored)) => return Some(self.not_raised(reign, stored).await),
                Err(StoreError::Fenced { .. }) => return Some(End::Fenced),
                Err(error) => {
                    self.failed(term, &error, "Raising the fence failed; trying again");
                    if self.is_mute(reign).await {
                        return Some(End::Mute);
                    }
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Some(End::Shutdown),
                () = reign.leadership.lost() => return Some(End::Lost),
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
    }

    /// A later leadership's fence refuses us, too; but then etcd no longer confirms ours.
    async fn not_raised(&self, reign: &Reign<'_>, stored: i64) -> End {
        let term = reign.planner.term;
        self.metrics.refused();
        if matches!(reign.leadership.confirm().await, Ok(false)) {
            return End::Fenced;
        }
        tracing::error!(
            term = term.revision,
            fence.refused = true,
            fence.stored = stored,
            "The fence refused this leadership: a higher one is stored. If etcd was rebuilt, its revisions begin anew: \
             stop every old ticker and run `escapement fence reset ticker --yes`"
        );
        End::Refused { stored }
    }

    /// Raises the fence and begins the term; else the revision that the fence has.
    async fn raise(&self, term: Term) -> Result<Result<Began, i64>, StoreError> {
        self.now().await?;
        match fence::raise(&self.store, term).await? {
            Raised::Held => {}
            Raised::Higher { stored } | Raised::Implausible { stored } => return Ok(Err(stored)),
        }
        let operation = "begin a leadership";
        let mut client = self.store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        let process =
            Process { pid: self.candidate.pid, name: &self.candidate.name, http: &self.candidate.http };
        let began = term::begin(&tx, term, process).await?;
        tx.commit().await?;
        Ok(Ok(began))
    }

    /// After a refusal: when etcd says that we still lead, the database forgot us in a failover, and the fence is
    /// raised again; a later leadership's can't be.
    pub(super) async fn raise_again(
        &self,
        reign: &mut Reign<'_>,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> Option<End> {
        let term = reign.planner.term;
        let leads = matches!(reign.leadership.confirm().await, Ok(true));
        if !leads {
            self.refused(term);
            return Some(End::Fenced);
        }
        tracing::warn!(
            term = term.revision,
            "The fence does not name this leadership, which etcd confirms; raising it"
        );
        self.begin(reign, beat, shutdown).await
    }

    /// The last act of a leadership: notes how it ended.
    pub(super) async fn last_words(&self, term: Term, end: End) {
        let how = match end {
            End::Shutdown => term::End::Resigned,
            End::Lost => term::End::Lost,
            End::Fenced | End::Refused { .. } => return self.note_refusal(term).await,
            End::Mute => return, // it can't write
        };
        match self.end(term, how).await {
            Ok(()) => {}
            Err(StoreError::Fenced { .. }) => {
                self.refused(term);
                self.note_refusal(term).await;
            }
            Err(error) => self.failed(term, &error, "How this leadership ended could not be noted"),
        }
    }

    async fn end(&self, term: Term, how: term::End) -> Result<(), StoreError> {
        let operation = "end a leadership";
        let mut client = self.store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        term::end(&tx, term, how).await?;
        tx.commit().await
    }

    async fn note_refusal(&self, term: Term) {
        if let Err(error) = term::refused(&self.store, term).await {
            self.failed(term, &error, "A refused leadership could not be noted");
        }
    }
}

/// Says what this leadership found, and whether it goes on where its predecessor stopped.
fn welcome(term: Term, began: &Began) {
    tracing::info!(
        term = term.revision,
        term.predecessor = began.predecessor,
        term.gap_ms = began.gap_ms,
        term.predecessor_mark = began.planned_through.map(tracing::field::display),
        term.first_occurrence = began.first_occurrence.map(tracing::field::display),
        "Leading"
    );
    if let (Some(mark), Some(first)) = (began.planned_through, began.first_occurrence)
        && first <= mark
    {
        tracing::warn!(
            term = term.revision,
            term.predecessor_mark = %mark,
            term.first_occurrence = %first,
            "An occurrence before the predecessor's mark is not planned: its job was changed since, or the database lost it"
        );
    }
}
