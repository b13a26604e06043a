//! Writing a set's check-ins. One that is new gets a token that nobody is told: what applies files shows no secrets, and whoever
//! needs the token has another one made.

use super::write::{Writing, overtaken};
use crate::audit;
use crate::check_ins::{Written, differences, expected, judge_at};
use crate::failure::Failure;
use crate::revisions;
use crate::tokens::new_secret;
use rpc::v1::applied::Change as Changed;
use std::collections::BTreeMap;
use store::check_in::{self, Change, CheckIn, NAME_TAKEN, New};
use uuid::Uuid;

impl Writing<'_> {
    /// Writes the check-ins, of which those in `stored` exist and are locked; one that is paused stays so.
    ///
    /// # Errors
    /// [`Failure::CheckInChangedSince`] for one whose generation is given and is another one by now.
    pub async fn check_ins(
        &mut self,
        written: &[(usize, Written)],
        stored: &BTreeMap<String, CheckIn>,
    ) -> Result<(), Failure> {
        for (_, one) in written {
            match stored.get(&one.name) {
                None => self.create(one).await?,
                Some(before) => self.change(before, one).await?,
            }
        }
        Ok(())
    }

    async fn create(&mut self, written: &Written) -> Result<(), Failure> {
        let (id, definition) = (Uuid::new_v4(), &written.definition);
        let secret = new_secret()?;
        let judge_at = judge_at(definition, id, self.at, self.at);
        let new = New { id, name: &written.name, definition, secret: &secret, judge_at };
        let stored = check_in::insert(self.tx, self.caller.tenant_id, self.at, &new).await;
        stored.map_err(|error| overtaken(error, NAME_TAKEN))?;
        self.events.push(audit::check_in::created(id, &written.name, definition));
        self.result("CheckIn", &written.name, Changed::Created);
        Ok(())
    }

    async fn change(&mut self, before: &CheckIn, written: &Written) -> Result<(), Failure> {
        if let Some(expected) = written.generation.filter(|expected| *expected != before.generation) {
            let (name, stored) = (before.name.clone(), before.generation);
            return Err(Failure::CheckInChangedSince { name, expected, stored });
        }
        let definition = &written.definition;
        if *definition == before.definition {
            self.result("CheckIn", &written.name, Changed::Unchanged);
            return Ok(());
        }
        let paused = before.paused_at.is_some();
        let due = expected(before, definition, paused, false, self.at);
        let change = Change { definition, paused, deleted: false, due };
        check_in::change(self.tx, before.id, self.at, change).await?;
        self.events.push(audit::check_in::changed(before, definition));
        let changes = differences(&before.definition, definition);
        self.changed("CheckIn", &written.name, changes.into_iter().map(revisions::change));
        Ok(())
    }
}
