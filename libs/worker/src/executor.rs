//! Who does the work: named handlers of a program, or an executor that takes any work.

use crate::context::RunContext;
use crate::report::{Report, chain};
use model::job::Work;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Any error of a handler.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Work on its way; yields its report.
pub type Execution = Pin<Box<dyn Future<Output = Report> + Send>>;

/// Does the work of runs of any kind.
///
/// The execution must watch [`RunContext::cancelled`] and end within [`RunContext::kill_grace`] after it; then it
/// is dropped. Dropping must end what it started.
pub trait Executor: Send + Sync + 'static {
    /// Does one attempt's work.
    fn execute(&self, run: RunContext) -> Execution;
}

type HandlerFn = Box<dyn Fn(RunContext) -> Execution + Send + Sync>;

/// The program's handlers, and who takes the rest.
#[derive(Default)]
pub(crate) struct Handlers {
    by_name: HashMap<String, HandlerFn>,
    rest: Option<Arc<dyn Executor>>,
}

impl Handlers {
    /// Registers a handler; false when the name is taken.
    pub(crate) fn add<F, R, E>(&mut self, name: String, handler: F) -> bool
    where
        F: Fn(RunContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.insert(name, move |run| reported(handler(run)))
    }

    /// Registers a handler that is not started with a payload that is no `T`; false when the name is taken.
    pub(crate) fn add_typed<T, F, R, E>(&mut self, name: String, handler: F) -> bool
    where
        T: DeserializeOwned,
        F: Fn(RunContext, T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.insert(name, move |run| match run.payload() {
            Ok(payload) => reported(handler(run, payload)),
            Err(error) => refused(chain(&error)),
        })
    }

    fn insert(
        &mut self,
        name: String,
        handler: impl Fn(RunContext) -> Execution + Send + Sync + 'static,
    ) -> bool {
        self.by_name.insert(name, Box::new(handler)).is_none()
    }

    pub(crate) fn set_rest(&mut self, executor: Arc<dyn Executor>) {
        self.rest = Some(executor);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.rest.is_none()
    }

    fn names(&self) -> String {
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(", ")
    }
}

impl Executor for Handlers {
    fn execute(&self, run: RunContext) -> Execution {
        let refusal = match run.work() {
            None => {
                "this worker does not know the kind of work: it is older than the job's definition".into()
            }
            Some(Work::Handler(wanted)) => match self.by_name.get(&wanted.name) {
                Some(handler) => return handler(run),
                None => format!("this worker has no handler {:?}; it has: {}", wanted.name, self.names()),
            },
            Some(Work::Exec(_)) => {
                "this worker does not start processes: give the job a queue of agents".into()
            }
            Some(Work::Http(_)) => "this worker makes no HTTP calls: give the job a queue of agents".into(),
        };
        match &self.rest {
            Some(rest) if run.work().is_some() => rest.execute(run),
            _ => refused(refusal),
        }
    }
}

/// A handler's way as an execution.
fn reported<R, E>(work: R) -> Execution
where
    R: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    Box::pin(async move {
        match work.await {
            Ok(()) => Report::succeeded(),
            Err(error) => Report::failed(chain(error.into().as_ref())),
        }
    })
}

fn refused(why: String) -> Execution {
    Box::pin(async { Report::not_started(why) })
}
