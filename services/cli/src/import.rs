//! Definitions of other schedulers as our documents, with a report of what became of each.
//!
//! Pure: text in, documents and remarks out. Nothing is guessed: what has no counterpart is either left out with a remark
//! (the job means the same without it) or the whole entry is refused with the reason. Deliberately not here: whether the
//! registry accepts a document, except for its schedule and timezone, which are read as the registry reads them.

mod crontab;
mod document;
mod kubernetes;
mod line;
mod naming;

pub use crontab::{Crontab, crontab};
pub use document::{Common, Document};
pub use kubernetes::kubernetes;

use std::fmt;

/// What came of an import.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Import {
    /// In the order of the source.
    pub documents: Vec<Document>,
    /// In the order of the source; those about all of it come last.
    pub remarks: Vec<Remark>,
}

/// Something that the reader of the documents has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Where in the source: `line 3`, `document 2`; empty when it is about all of it.
    pub place: String,
    pub verdict: Verdict,
    pub text: String,
}

/// What became of a part of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is a job now.
    Mapped,
    /// The job means something else than its source, or does without a part of it.
    Differs,
    /// It can't be a job of ours.
    Refused,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Mapped => "mapped",
            Verdict::Differs => "differs",
            Verdict::Refused => "refused",
        };
        match self.place.as_str() {
            "" => write!(f, "{verdict}: {}", self.text),
            place => write!(f, "{place}: {verdict}: {}", self.text),
        }
    }
}

impl Import {
    /// How many parts of the source are no job.
    pub fn refused(&self) -> usize {
        self.remarks.iter().filter(|remark| remark.verdict == Verdict::Refused).count()
    }

    fn remark(&mut self, place: &str, verdict: Verdict, text: impl Into<String>) {
        self.remarks.push(Remark { place: place.to_owned(), verdict, text: text.into() });
    }

    /// All documents as one text of YAML.
    pub fn to_yaml(&self) -> Result<String, serde_yaml_ng::Error> {
        let documents: Result<Vec<_>, _> = self.documents.iter().map(Document::to_yaml).collect();
        Ok(documents?.join("---\n"))
    }
}
