//! Documents of files as one `ApplyRequest`, with where each stood, and what is wrong with them before any registry sees them.
//!
//! Invariant: what can't be read hides nothing else that can't be. Deliberately not here: what only a registry knows to be
//! wrong; but what it says is said of where the document stood.

use crate::document::{sort, wrong_durations};
use crate::failure::Failure;
use crate::source;
use crate::wrong::WrongField;
use rpc::document::{Document, REPEATED};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where a document stood that a request holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// What the registry calls it: `jobs[0]`.
    field: String,
    /// What its author does: the file, the document's number and its name.
    stood: String,
}

/// What a registry says of documents that are not to be stored.
#[derive(Debug, Default)]
pub struct Found {
    /// What is wrong with them, as it names it.
    pub wrong: Vec<WrongField>,
    /// What their author may do, a line each.
    pub next: Vec<String>,
}

/// Documents that are to be sent.
#[derive(Debug)]
pub struct Documents {
    /// An `ApplyRequest` of those that could be read.
    request: Value,
    places: Vec<Place>,
    /// What is wrong with them, as the registry would call it.
    wrong: Vec<WrongField>,
    /// Which of them could not be read at all: what the others name may be among these.
    left_out: Vec<WrongField>,
}

impl Documents {
    /// Those of all files.
    ///
    /// # Errors
    /// When a file can't be read, or none holds a document.
    pub fn of_files(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut documents = Self::none();
        for file in files {
            documents.add(&file.display().to_string(), &source::read(file)?);
        }
        if documents.request == json!({}) && documents.left_out.is_empty() {
            anyhow::bail!("the files hold no document: begin one with `kind: Job`");
        }
        Ok(documents)
    }

    /// Those of `text`; `origin` names it in messages.
    pub fn of_text(origin: &str, text: &str) -> Self {
        let mut documents = Self::none();
        documents.add(origin, text);
        documents
    }

    fn none() -> Self {
        Self { request: json!({}), places: Vec::new(), wrong: Vec::new(), left_out: Vec::new() }
    }

    fn add(&mut self, origin: &str, text: &str) {
        for (index, document) in serde_yaml_ng::Deserializer::from_str(text).enumerate() {
            let place = format!("{origin}, document {}", index + 1);
            let document = match Document::deserialize(document) {
                Ok(document) => document,
                Err(error) => {
                    self.leave_out(place, format!("is not YAML: {error}"));
                    return; // the reader has lost its place, and would say so for ever
                }
            };
            if document.value.is_null() {
                continue; // an empty one, such as after a last ---
            }
            if let Err(message) = self.take(&place, document) {
                self.leave_out(place, message);
            }
        }
    }

    fn leave_out(&mut self, place: String, message: String) {
        self.left_out.push(WrongField { field: place, message });
    }

    fn take(&mut self, place: &str, Document { value, repeated }: Document) -> Result<(), String> {
        let (collection, mut document) = sort(value)?;
        let name = document["name"].as_str().map(|name| format!(" ({name})")).unwrap_or_default();
        let index = self.request[collection].as_array().map_or(0, Vec::len);
        let field = format!("{collection}[{index}]");
        let twice = repeated.into_iter().map(|key| (key, REPEATED.to_owned()));
        let wrong = twice.chain(wrong_durations(&mut document));
        let named = wrong.map(|(path, message)| WrongField { field: format!("{field}.{path}"), message });
        self.wrong.extend(named);
        self.places.push(Place { field, stood: format!("{place}{name}") });
        match &mut self.request[collection] {
            Value::Array(list) => list.push(document),
            other => *other = json!([document]),
        }
        Ok(())
    }

    /// The request, if nothing is wrong with it that can be seen here.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn sound(self) -> Result<Value, Failure> {
        if self.is_sound() { Ok(self.request) } else { Err(self.refused(Found::default())) }
    }

    /// Whether nothing is wrong that can be seen here.
    pub const fn is_sound(&self) -> bool {
        self.wrong.is_empty() && self.left_out.is_empty()
    }

    /// Whether all of them could be read, so that it makes sense to ask what else is wrong.
    pub const fn is_whole(&self) -> bool {
        self.left_out.is_empty()
    }

    /// An `ApplyRequest` of what could be read.
    pub const fn request(&self) -> &Value {
        &self.request
    }

    /// Everything that is wrong, with what a registry `found`: first the documents that could not be read, then wrong
    /// fields in the order of their documents.
    pub fn refused(&self, Found { wrong, next }: Found) -> Failure {
        let further = wrong.into_iter().filter(|one| self.wrong.iter().all(|wrong| wrong.field != one.field));
        let placed = self.stood(self.wrong.iter().cloned().chain(further));
        Failure::Wrong { fields: self.left_out.iter().cloned().chain(placed).collect(), next }
    }

    /// Wrong fields as a registry names them, with their documents named as their author does, and in the order of these.
    pub fn stood(&self, wrong: impl IntoIterator<Item = WrongField>) -> Vec<WrongField> {
        let mut placed: Vec<_> = wrong.into_iter().map(|wrong| self.placed(wrong)).collect();
        placed.sort_by_key(|(index, _)| *index);
        placed.into_iter().map(|(_, wrong)| wrong).collect()
    }

    /// Names a wrong field by where its document stood, with that document's index; `usize::MAX`, so that it sorts last, if
    /// it belongs to none.
    fn placed(&self, WrongField { field, message }: WrongField) -> (usize, WrongField) {
        let found = self.places.iter().enumerate().find_map(|(index, place)| {
            let rest = field.strip_prefix(place.field.as_str())?;
            match rest.strip_prefix('.') {
                Some(rest) => Some((index, format!("{}: {rest}", place.stood))),
                None => rest.is_empty().then(|| (index, place.stood.clone())),
            }
        });
        let (index, field) = found.unwrap_or((usize::MAX, field));
        (index, WrongField { field, message })
    }
}

#[cfg(test)]
mod tests;
