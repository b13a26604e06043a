//! `escapement`: the command line. A list of commands; each has a file of its own under `command/`.

mod arguments;
mod client;
mod command;
mod context;
mod document;
mod failure;
mod hint;
mod import;
mod number;
mod progress;
mod schema;
mod source;
mod suggest;
mod table;
mod wrong;

use arguments::{Arguments, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    service::runtime::install_crypto();
    command::completion::answer();
    start(Arguments::read())
}

#[tokio::main]
async fn start(arguments: Arguments) -> ExitCode {
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("escapement: {error:#}");
            for next in failure::next(&error) {
                eprintln!("  {next}");
            }
            ExitCode::from(failure::exit_status(&error))
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { connection, output, quiet, command } = arguments;
    progress::choose(quiet, output);
    let output = table::choose(output);
    match command {
        Command::Apply(apply) => command::apply::run(&connection.client()?, &apply, output).await,
        Command::Diff(diff) => command::apply::diff(&connection.client()?, &diff, output).await,
        Command::Create(create) => command::create::run(&connection.client()?, &create, output).await,
        Command::Export(export) => command::export::run(&connection.client()?, &export, output).await,
        Command::Schema => command::schema::run(),
        Command::Import(import) => command::import::run(|| connection.client(), &import, output).await,
        Command::Describe(describe) => command::describe::run(&connection.client()?, &describe, output).await,
        Command::Get(get) => command::get::run(&connection.client()?, &get, output).await,
        Command::Delete(delete) => command::delete::run(&connection.client()?, &delete, output).await,
        Command::Preview(preview) => command::preview::run(&connection.client()?, &preview, output).await,
        Command::Why(why) => command::why::run(&connection.client()?, &why, output).await,
        Command::Runs(runs) => command::runs::run(&connection.client()?, &runs, output).await,
        Command::Logs(logs) => command::logs::run(&connection.client()?, &logs, output).await,
        Command::Pause(pause) => command::pause::pause(&connection.client()?, &pause, output).await,
        Command::Resume(resume) => command::pause::resume(&connection.client()?, &resume, output).await,
        Command::Trigger(trigger) => command::trigger::run(&connection.client()?, &trigger, output).await,
        Command::Backfill(backfill) => command::backfill::run(&connection.client()?, &backfill, output).await,
        Command::Rerun(rerun) => command::rerun::rerun(&connection.client()?, &rerun, output).await,
        Command::Cancel(cancel) => command::rerun::cancel(&connection.client()?, &cancel, output).await,
        Command::Channels(channels) => command::channels::run(&connection.client()?, &channels, output).await,
        Command::CheckIns(check_ins) => {
            command::check_ins::run(&connection.client()?, &check_ins, output).await
        }
        Command::Alerts(alerts) => command::alerts::run(&connection.client()?, &alerts, output).await,
        Command::Status => command::status::run(&connection.client()?, output).await,
        Command::Tokens(action) => command::tokens::run(&connection.client()?, &action, output).await,
        Command::Tenants(action) => command::tenants::run(&connection.client()?, &action, output).await,
        Command::Context(action) => command::context::run(&connection, &action, output),
        Command::Completion(completion) => command::completion::run(completion.shell),
        Command::Migrate(database) => command::migrate::run(&database, output).await,
        Command::Bootstrap(bootstrap) => command::bootstrap::run(&bootstrap, output).await,
        Command::Fence(fence) => command::fence::run(&fence, output).await,
        Command::Dev(dev) => command::dev::run(dev, quiet).await,
    }
}
