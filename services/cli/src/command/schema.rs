//! `escapement schema`: what editors complete and check the files of `apply` by.

use crate::{schema, table};

pub fn run() -> anyhow::Result<()> {
    table::print_json(&schema::documents()?);
    Ok(())
}
