//! The one task that keeps the session: events in, actions of [`Hand`] out.
//!
//! Owns hand, link and the tasks that do the work. Invariants: it never waits for anything but the next event, so
//! that deadlines are kept whatever connection and work do; and time comes before the event, so that a process
//! that was frozen sees its expired lease before anything else. Dropping it drops the work with it. It decides little:
//! what came is read in `told`, what follows is decided in `hand`, and the way out in `drain`.

use crate::ask::Asker;
use crate::assignment::{Assignment, Attempt};
use crate::clock::Moment;
use crate::context::RunContext;
use crate::drain::Drain;
use crate::executor::Executor;
use crate::going::Going;
use crate::hand::{Action, Hand};
use crate::identity::Identity;
use crate::lease::{Answer, Terms};
use crate::link::{Event, Link, LinkError};
use crate::live::Shown;
use crate::report::{StopCause, chain};
use crate::supervise::Ended;
use crate::told::Told;
use crate::worker::{Status, Summary};
use chrono::Utc;
use rpc::v1::completion_ack;
use rpc::v1::{self, from_worker};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Events that are taken one after the other before the clock's turn.
const TOGETHER_MAX: usize = 128;
/// The longest sleep: after a suspend the clock has jumped and the timers have not.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Between two times that running work is shown.
const SHOW_EVERY: Duration = Duration::from_secs(1);

enum Next {
    Link(Event),
    /// All dispatchers were asked, at that moment.
    Answers(Moment, Vec<Answer>),
    Ended(Ended),
    Shutdown,
    Time,
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
            let mut next = Some(self.next(shutdown.as_mut()).await);
            // What has come with it is taken at once: a herd comes in hundreds.
            let mut places = TOGETHER_MAX;
            while let Some(event) = next {
                self.happened(event);
                places -= 1;
                next = if places > 0 { self.more() } else { None };
            }
            let now = Moment::now();
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

    /// One event, after whatever the time that has passed by then brings.
    fn happened(&mut self, next: Next) {
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
    }

    /// An end or a message that is there already.
    fn more(&mut self) -> Option<Next> {
        let ended = self.going.ended_already().map(Next::Ended);
        ended.or_else(|| if self.link.is_up() { self.link.ready().map(Next::Link) } else { None })
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
        let drain = self.drain.map(Drain::wakes_at);
        let wakes = [heartbeat, drain, self.hand.wakes_at()];
        wakes.into_iter().flatten().map(|wake| wake.since(now)).min().unwrap_or(SLEEP_MAX).min(SLEEP_MAX)
    }

    fn linked(&mut self, event: Event, now: Moment) {
        match event {
            Event::Due => {
                let hello = self.identity.hello(&self.session_id, &self.hand, now);
                self.link.connect(hello);
            }
            Event::Up(welcome, asked) => self.welcomed(welcome, asked, now),
            Event::Message(message) => self.told(Told::of(*message), now),
            Event::Down(error) => self.lost(&error),
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

    fn told(&mut self, told: Told, now: Moment) {
        let actions = match told {
            Told::Assigned(number, Some(assignment)) => self.hand.assigned(number, *assignment, now),
            Told::Assigned(number, None) => {
                self.hand.skipped(number);
                Vec::new()
            }
            Told::Acknowledged(attempt, answer) => {
                self.acknowledged(attempt, answer);
                Vec::new()
            }
            Told::Cancelled(attempt, reason) => self.hand.cancelled(attempt, &reason, now),
            Told::Renewed { sequence, without_database, renewal } => {
                self.link.proved(without_database);
                self.trouble.clear();
                if !without_database && std::mem::take(&mut self.vouched) {
                    tracing::info!("The dispatcher has the database again");
                }
                self.hand.renewed(sequence, renewal, now)
            }
            Told::SentOn => {
                self.give_up_link(LinkError::SentOn);
                Vec::new()
            }
            Told::Nothing => Vec::new(),
        };
        self.perform(actions);
    }

    fn acknowledged(&mut self, attempt: Attempt, answer: completion_ack::Answer) {
        if answer == completion_ack::Answer::Stale {
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
        if self.drain.as_mut().is_some_and(|drain| drain.stops(now)) {
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
        self.send(from_worker::Message::Live(live.message(attempt)));
    }

    fn start_drain(&mut self, now: Moment) {
        self.drain = Some(Drain::begin(now, self.drain_limit, self.hand.lease().terms.kill_grace));
        tracing::info!(runs.in_hand = self.hand.len(), "Draining: finishing the runs in hand");
        self.send(from_worker::Message::Drain(v1::Drain {}));
    }

    fn is_done(&self, now: Moment) -> bool {
        let Some(drain) = self.drain else { return false };
        if self.hand.is_empty() {
            return true;
        }
        let is_over = drain.is_over(now);
        if is_over {
            tracing::warn!(
                runs.in_hand = self.hand.len(),
                "Ending with runs in hand: the drain took too long"
            );
        }
        is_over
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
            return;
        }
        let in_hand = self.hand.len();
        if matches!(error, LinkError::SentOn) {
            tracing::info!(runs.in_hand = in_hand, "Going to another dispatcher, as this one asked");
        } else {
            tracing::warn!(error = trouble, runs.in_hand = in_hand, "No dispatcher: trying the next");
        }
        self.trouble = trouble;
    }

    fn tell_status(&self) {
        self.status
            .send_if_modified(|status| status.note(&self.link, &self.hand, &self.session_id, &self.trouble));
    }
}
