//! The one task that keeps the session: events in, actions of [`Hand`] out.
//!
//! Owns hand, link and the tasks that do the work. Invariants: it never waits for anything but the next event, so
//! that deadlines are kept whatever connection and work do; and time comes before the event, so that a process
//! that was frozen sees its expired lease before anything else. Dropping it drops the work with it.

use crate::ask::Asker;
use crate::assignment::{Assignment, Attempt};
use crate::clock::Moment;
use crate::context::RunContext;
use crate::executor::Executor;
use crate::going::Going;
use crate::hand::{Action, Hand};
use crate::lease::{Answer, Renewal, Terms};
use crate::link::{Event, Link, LinkError};
use crate::live::Shown;
use crate::report::{StopCause, chain};
use crate::supervise::Ended;
use crate::worker::{Status, Summary};
use chrono::Utc;
use rpc::v1::{self, from_worker, to_worker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The longest sleep: after a suspend the clock has jumped and the timers have not.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// What is left of a drain for the last completions to be acknowledged.
const LAST_REPORTS: Duration = Duration::from_secs(1);
/// Between two times that running work is shown.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// Who this worker is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub name: String,
    pub queues: Vec<String>,
    pub slots: usize,
    pub labels: BTreeMap<String, String>,
    pub version: String,
}

enum Next {
    Link(Event),
    /// All dispatchers were asked, at that moment.
    Answers(Moment, Vec<Answer>),
    Ended(Ended),
    Shutdown,
    Time,
}

/// The way out: when to stop what still runs, and when to end without it.
#[derive(Clone, Copy)]
struct Drain {
    stop_at: Moment,
    stopped: bool,
    end_at: Moment,
}

/// See the module.
pub(crate) struct Keeper {
    identity: Identity,
    hand: Hand,
    link: Link,
    session_id: String,
    heartbeat_at: Moment,
    going: Going,
    show_at: Moment,
    asker: Asker,
    asking: JoinSet<(Moment, Vec<Answer>)>,
    /// Whether the work goes on without renewals.
    vouched: bool,
    drain_limit: Duration,
    drain: Option<Drain>,
    status: watch::Sender<Status>,
    trouble: String,
    finished: u64,
}

impl Keeper {
    pub(crate) fn new(
        identity: Identity,
        executor: Arc<dyn Executor>,
        link: Link,
        asker: Asker,
        drain_limit: Duration,
        status: watch::Sender<Status>,
    ) -> Self {
        Self {
            hand: Hand::new(identity.slots),
            identity,
            link,
            session_id: String::new(),
            heartbeat_at: Moment::now(),
            going: Going::new(executor),
            show_at: Moment::now(),
            asker,
            asking: JoinSet::new(),
            vouched: false,
            drain_limit,
            drain: None,
            status,
            trouble: String::new(),
            finished: 0,
        }
    }

    /// Works until `shutdown`, then drains.
    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()>) -> Summary {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let next = self.next(shutdown.as_mut()).await;
            let now = Moment::now();
            let overdue = self.hand.passed(now);
            self.perform(overdue);
            match next {
                Next::Link(event) => self.linked(event, now),
                Next::Answers(asked, answers) => self.answered(asked, &answers, now),
                Next::Ended(ended) => self.work_ended(ended, now),
                Next::Shutdown => self.start_drain(now),
                Next::Time => {}
            }
            self.keep_time(now);
            self.tell_status();
            if self.is_done(now) {
                break;
            }
        }
        let summary = Summary { finished: self.finished, unreported: self.hand.len() };
        self.link.close().await;
        summary
    }

    async fn next(&mut self, shutdown: std::pin::Pin<&mut impl Future<Output = ()>>) -> Next {
        let sleep = self.sleep(Moment::now());
        tokio::select! {
            biased;
            () = shutdown, if self.drain.is_none() => Next::Shutdown,
            Some(ended) = self.going.ended() => Next::Ended(ended),
            Some(Ok((asked, answers))) = self.asking.join_next() => Next::Answers(asked, answers),
            event = self.link.next() => Next::Link(event),
            () = tokio::time::sleep(sleep) => Next::Time,
        }
    }

    fn sleep(&self, now: Moment) -> Duration {
        let heartbeat = self.link.is_up().then_some(self.heartbeat_at);
        let drain = self.drain.map(|drain| if drain.stopped { drain.end_at } else { drain.stop_at });
        let wakes = [heartbeat, drain, self.hand.wakes_at()];
        wakes.into_iter().flatten().map(|wake| wake.since(now)).min().unwrap_or(SLEEP_MAX).min(SLEEP_MAX)
    }

    fn linked(&mut self, event: Event, now: Moment) {
        match event {
            Event::Due => {
                let hello = self.hello(now);
                self.link.connect(hello);
            }
            Event::Up(welcome, asked) => self.welcomed(welcome, asked, now),
            Event::Message(message) => match message.message {
                Some(message) => self.told(message, now),
                None => tracing::debug!("Ignored a message of a kind that this version does not know"),
            },
            Event::Down(error) => self.lost(&error),
        }
    }

    fn hello(&self, now: Moment) -> v1::Hello {
        v1::Hello {
            name: self.identity.name.clone(),
            queues: self.identity.queues.clone(),
            slots: i32::try_from(self.identity.slots).unwrap_or(i32::MAX),
            labels: self.identity.labels.clone().into_iter().collect(),
            version: self.identity.version.clone(),
            session_id: self.session_id.clone(),
            in_hand: self.hand.in_hand(),
            unheard: self.hand.unheard(now),
        }
    }

    fn welcomed(&mut self, welcome: v1::Welcome, asked: Moment, now: Moment) {
        tracing::info!(
            dispatcher.address = self.link.address(),
            session.id = welcome.session_id,
            session.connection = welcome.connection,
            session.resumed = welcome.resumed,
            runs.in_hand = self.hand.len(),
            "Connected to a dispatcher"
        );
        let resumed = welcome.resumed || self.session_id.is_empty();
        let terms = Terms::of(&welcome);
        self.session_id = welcome.session_id;
        self.heartbeat_at = now;
        let actions = self.hand.welcomed(terms, asked, resumed, now);
        self.perform(actions);
        if self.drain.is_some() {
            self.send(from_worker::Message::Drain(v1::Drain {}));
        }
    }

    fn told(&mut self, message: to_worker::Message, now: Moment) {
        let actions = match message {
            to_worker::Message::Assignment(assignment) => self.assigned(assignment, now),
            to_worker::Message::CompletionAck(ack) => {
                self.acknowledged(&ack);
                Vec::new()
            }
            to_worker::Message::Cancel(cancel) => match Attempt::of(cancel.run.as_ref()) {
                Ok(attempt) => self.hand.cancelled(attempt, &cancel.reason, now),
                Err(error) => {
                    tracing::error!(error = %error, "Got a cancellation that can't be understood");
                    Vec::new()
                }
            },
            to_worker::Message::HeartbeatAck(ack) => {
                self.link.proved();
                self.trouble.clear();
                if !ack.without_database && std::mem::take(&mut self.vouched) {
                    tracing::info!("The dispatcher has the database again");
                }
                self.hand.renewed(ack.sequence, Renewal::of(ack), now)
            }
            to_worker::Message::Drain(v1::Drain {}) => {
                self.give_up_link(LinkError::Draining);
                Vec::new()
            }
            to_worker::Message::Welcome(_) => Vec::new(),
        };
        self.perform(actions);
    }

    fn assigned(&mut self, message: v1::Assignment, now: Moment) -> Vec<Action> {
        let number = message.number;
        match Assignment::of(message) {
            Ok(assignment) => self.hand.assigned(number, assignment, now),
            Err(error) => {
                tracing::error!(assignment.number = number, error = %error, "Got an assignment that can't be understood");
                self.hand.skipped(number);
                Vec::new()
            }
        }
    }

    fn acknowledged(&mut self, ack: &v1::CompletionAck) {
        let attempt = match Attempt::of(ack.run.as_ref()) {
            Ok(attempt) => attempt,
            Err(error) => {
                tracing::error!(error = %error, "Got an acknowledgement that can't be understood");
                return;
            }
        };
        if ack.answer() == v1::completion_ack::Answer::Stale {
            tracing::warn!(
                job.id = %attempt.run.job_id,
                run.scheduled_for = %attempt.run.scheduled_for,
                run.attempt = attempt.number,
                run.token = %attempt.token,
                "The report of an attempt was refused as stale"
            );
        }
        self.hand.acknowledged(attempt);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Start(assignment) => self.start(*assignment),
                Action::Stop(attempt, cause) => self.stop(attempt, &cause),
                Action::Accepted(attempt) => {
                    self.send(from_worker::Message::Accepted(v1::Accepted { run: Some(attempt.to_ref()) }));
                }
                Action::Completed(completed) => self.send(from_worker::Message::Completed(*completed)),
            }
        }
    }

    fn start(&mut self, assignment: Assignment) {
        let stop = CancellationToken::new();
        let grace = self.hand.lease().terms.kill_grace;
        let run = RunContext::new(assignment, Utc::now(), grace, stop.clone());
        tracing::debug!(
            job.name = run.job_name(),
            run.scheduled_for = %run.scheduled_for(),
            run.attempt = run.attempt(),
            run.token = %run.fencing_token(),
            "Run started"
        );
        self.going.start(run, stop);
    }

    fn stop(&mut self, attempt: Attempt, cause: &StopCause) {
        tracing::warn!(
            job.id = %attempt.run.job_id,
            run.scheduled_for = %attempt.run.scheduled_for,
            run.attempt = attempt.number,
            run.token = %attempt.token,
            "Run asked to stop: {cause}"
        );
        self.going.stop(attempt);
    }

    fn work_ended(&mut self, ended: Ended, now: Moment) {
        tracing::debug!(
            job.id = %ended.attempt.run.job_id,
            run.scheduled_for = %ended.attempt.run.scheduled_for,
            run.attempt = ended.attempt.number,
            run.stopped = ended.stopped,
            run.exit_status = ended.report.exit_status(),
            "Run ended: {:?}",
            ended.report.end()
        );
        self.finished += 1;
        if let Some(last) = self.going.forget(ended.attempt) {
            self.show(ended.attempt, last);
        }
        let actions = self.hand.ended(ended.attempt, ended.report, ended.stopped, now);
        self.perform(actions);
    }

    /// What is due by the clock: heartbeats, a silent connection, the stages of a drain.
    fn keep_time(&mut self, now: Moment) {
        if self.link.is_up() && self.heartbeat_at <= now {
            let interval = self.hand.lease().terms.heartbeat_interval;
            let silence = self.hand.lease().silence(now);
            if silence > interval + interval / 2 {
                self.give_up_link(LinkError::Silent(silence));
            } else {
                self.heartbeat_at = now + interval;
                let (heartbeat, again) = self.hand.heartbeat(now);
                self.send(from_worker::Message::Heartbeat(heartbeat));
                self.perform(again);
            }
        }
        if self.asking.is_empty()
            && let Some(question) = self.hand.question(now)
        {
            let answers = self.asker.ask(&question);
            self.asking.spawn(async move { (question.asked, answers.await) });
        }
        if self.show_at <= now {
            self.show_at = now + SHOW_EVERY;
            if self.link.has_room() {
                self.going.show().into_iter().for_each(|(attempt, live)| self.show(attempt, live));
            }
        }
        if let Some(drain) = self.drain.as_mut().filter(|drain| !drain.stopped && drain.stop_at <= now) {
            drain.stopped = true;
            let mut actions = Vec::new();
            self.hand.stop_all(&StopCause::Drained, now, &mut actions);
            self.perform(actions);
        }
    }

    /// Every dispatcher was asked whether it has the database.
    fn answered(&mut self, asked: Moment, answers: &[Answer], now: Moment) {
        if !self.hand.vouched(asked, answers, now) {
            tracing::debug!(answers = ?answers, "Not every dispatcher is without the database");
        } else if !std::mem::replace(&mut self.vouched, true) {
            tracing::warn!(
                dispatchers = answers.len(),
                runs.in_hand = self.hand.len(),
                "No dispatcher has the database: going on, because nobody can give the runs away"
            );
        }
    }

    fn show(&mut self, attempt: Attempt, live: Shown) {
        if !self.link.has_room() {
            return;
        }
        let Shown { offset, tail, fraction, note } = live;
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        let run = Some(attempt.to_ref());
        self.send(from_worker::Message::Live(v1::Live { run, offset, tail, fraction, note }));
    }

    fn start_drain(&mut self, now: Moment) {
        let last = self.hand.lease().terms.kill_grace + LAST_REPORTS;
        let stop_at = now + self.drain_limit.saturating_sub(last);
        self.drain = Some(Drain { stop_at, stopped: false, end_at: now + self.drain_limit });
        tracing::info!(runs.in_hand = self.hand.len(), "Draining: finishing the runs in hand");
        self.send(from_worker::Message::Drain(v1::Drain {}));
    }

    fn is_done(&self, now: Moment) -> bool {
        let Some(drain) = self.drain else { return false };
        if !self.hand.is_empty() && drain.end_at <= now {
            tracing::warn!(
                runs.in_hand = self.hand.len(),
                "Ending with runs in hand: the drain took too long"
            );
        }
        self.hand.is_empty() || drain.end_at <= now
    }

    fn send(&mut self, message: from_worker::Message) {
        if let Err(error) = self.link.send(message) {
            self.give_up_link(error);
        }
    }

    fn give_up_link(&mut self, error: LinkError) {
        if let Event::Down(error) = self.link.down(error) {
            self.lost(&error);
        }
    }

    /// Logged once for each kind of trouble, not once for each try.
    fn lost(&mut self, error: &LinkError) {
        self.hand.disconnected();
        let trouble = chain(error);
        if self.trouble == trouble {
            tracing::debug!(error = trouble, "No dispatcher");
        } else {
            tracing::warn!(error = trouble, runs.in_hand = self.hand.len(), "No dispatcher: trying the next");
            self.trouble = trouble;
        }
    }

    fn tell_status(&self) {
        let status = Status {
            connected: self.link.is_up(),
            dispatcher: self.link.address(),
            session_id: self.session_id.clone(),
            running: self.hand.running(),
            in_hand: self.hand.len(),
            trouble: self.trouble.clone(),
        };
        self.status.send_if_modified(|old| {
            let changed = *old != status;
            *old = status;
            changed
        });
    }
}
