//! `escapement delete jobs|channels|calendars|checkins NAME`.

use crate::arguments::{Delete, Kind, Output};
use crate::client::{Client, encode};
use crate::table::{self, say};

pub async fn run(client: &Client, delete: &Delete, output: Output) -> anyhow::Result<()> {
    let kind = match delete.kind {
        Kind::Jobs => "job",
        Kind::Channels => "channel",
        Kind::Calendars => "calendar",
        Kind::CheckIns => "check-in",
    };
    let path = format!("/v1/{}/{}", delete.kind.collection(), encode(&delete.name));
    let answer = client.delete(&path).await?;
    match output {
        Output::Json => table::print_json_of(&delete.name, &answer),
        Output::Table => say!("{kind} {} deleted", delete.name),
    }
    Ok(())
}
