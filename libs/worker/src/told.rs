//! What a dispatcher says, read. A message that can't be understood is logged here, and never ends the session: a newer
//! dispatcher may say more than this version knows. What comes of a message is the keeper's business.

use crate::assignment::{Assignment, Attempt};
use crate::lease::Renewal;
use rpc::v1;
use rpc::v1::completion_ack::Answer;
use rpc::v1::to_worker::Message;

/// See the module.
#[derive(Debug)]
pub(crate) enum Told {
    /// The assignment of this number; none when it can't be understood, which counts as seen all the same.
    Assigned(i64, Option<Box<Assignment>>),
    /// A report was answered.
    Acknowledged(Attempt, Answer),
    /// This attempt is to be stopped, and why.
    Cancelled(Attempt, String),
    /// A heartbeat was answered.
    Renewed { sequence: i64, without_database: bool, renewal: Renewal },
    /// This dispatcher wants its workers to go elsewhere.
    SentOn,
    /// Nothing that asks for anything.
    Nothing,
}

impl Told {
    pub(crate) fn of(message: v1::ToWorker) -> Self {
        match message.message {
            Some(Message::Assignment(assignment)) => Self::assigned(assignment),
            Some(Message::CompletionAck(ack)) => match Attempt::of(ack.run.as_ref()) {
                Ok(attempt) => Self::Acknowledged(attempt, ack.answer()),
                Err(error) => {
                    tracing::error!(error = %error, "Got an acknowledgement that can't be understood");
                    Self::Nothing
                }
            },
            Some(Message::Cancel(cancel)) => match Attempt::of(cancel.run.as_ref()) {
                Ok(attempt) => Self::Cancelled(attempt, cancel.reason),
                Err(error) => {
                    tracing::error!(error = %error, "Got a cancellation that can't be understood");
                    Self::Nothing
                }
            },
            Some(Message::HeartbeatAck(ack)) => Self::Renewed {
                sequence: ack.sequence,
                without_database: ack.without_database,
                renewal: Renewal::of(ack),
            },
            Some(Message::Drain(v1::Drain {})) => Self::SentOn,
            Some(Message::Welcome(_)) => Self::Nothing,
            None => {
                tracing::debug!("Ignored a message of a kind that this version does not know");
                Self::Nothing
            }
        }
    }

    fn assigned(message: v1::Assignment) -> Self {
        let number = message.number;
        match Assignment::of(message) {
            Ok(assignment) => Self::Assigned(number, Some(Box::new(assignment))),
            Err(error) => {
                tracing::error!(assignment.number = number, error = %error, "Got an assignment that can't be understood");
                Self::Assigned(number, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(message: Message) -> Told {
        Told::of(v1::ToWorker { message: Some(message) })
    }

    #[test]
    fn what_names_no_run_asks_for_nothing_but_an_assignment_counts_as_seen() {
        assert!(matches!(told(Message::Cancel(v1::Cancel::default())), Told::Nothing));
        assert!(matches!(told(Message::CompletionAck(v1::CompletionAck::default())), Told::Nothing));
        let nameless = v1::Assignment { number: 7, ..v1::Assignment::default() };
        assert!(matches!(told(Message::Assignment(nameless)), Told::Assigned(7, None)));
        assert!(matches!(Told::of(v1::ToWorker::default()), Told::Nothing), "of a later version");
    }
}
