//! `escapement delete jobs|channels|calendars NAME`.

use crate::arguments::{Delete, Kind, Output};
use crate::client::{Client, encode};
use crate::table::{self, say};

pub async fn run(client: &Client, delete: &Delete, output: Output) -> anyhow::Result<()> {
    let (collection, kind) = match delete.kind {
        Kind::Jobs => ("jobs", "job"),
        Kind::Channels => ("channels", "channel"),
        Kind::Calendars => ("calendars", "calendar"),
    };
    let answer = client.delete(&format!("/v1/{collection}/{}", encode(&delete.name))).await?;
    match output {
        Output::Json => table::print_json_of(&delete.name, &answer),
        Output::Table => say!("{kind} {} deleted", delete.name),
    }
    Ok(())
}
