//! `escapement import crontab|kubernetes`: documents on standard output, what became of each part on standard error.

use crate::arguments::{Import, ImportCommon, ImportSource, Output};
use crate::client::Client;
use crate::command::apply;
use crate::document::Documents;
use crate::table::{self, say};
use crate::{import, source};
use anyhow::{Context, bail};

/// `client` is asked for only when the jobs are to be stored.
pub async fn run(
    client: impl FnOnce() -> anyhow::Result<Client>,
    arguments: &Import,
    output: Output,
) -> anyhow::Result<()> {
    let (asked, read) = match &arguments.source {
        ImportSource::Crontab { common, system } => {
            let text = source::read(&common.file)?;
            (common, import::crontab(&text, &import::Crontab { system: *system, common: of_all(common) }))
        }
        ImportSource::Kubernetes { common } => {
            (common, import::kubernetes(&source::read(&common.file)?, &of_all(common)))
        }
    };
    for remark in &read.remarks {
        eprintln!("{remark}");
    }
    if read.documents.is_empty() {
        bail!("{} holds nothing that can be a job", asked.file.display());
    }
    let yaml = read.to_yaml().context("writing YAML")?;
    let request = Documents::of_text("import", &yaml).sound()?;
    match output {
        _ if asked.apply => {}
        Output::Json => table::print_json(&request),
        Output::Table => say!("{}", yaml.trim_end()),
    }
    if read.refused() > 0 {
        let hint = if asked.apply {
            "nothing was stored: import without --apply, and apply what is printed"
        } else {
            "see above"
        };
        bail!("{} of the source could not be taken over: {hint}", read.refused());
    }
    if asked.apply {
        apply::store(&client()?, &request, output).await?;
    }
    Ok(())
}

fn of_all(asked: &ImportCommon) -> import::Common {
    import::Common {
        prefix: asked.prefix.clone(),
        timezone: asked.timezone.clone(),
        queue: asked.queue.clone(),
        channels: asked.channel.clone(),
        labels: asked.label.iter().cloned().collect(),
    }
}
