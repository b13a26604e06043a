//! What can be typed to write definitions into files.

use super::Kind;
use clap::Args;

#[derive(Debug, Args)]
pub struct Export {
    /// Only these; all without any.
    #[arg(value_enum, value_name = "KIND")]
    pub kinds: Vec<Kind>,
    /// Only jobs with this label: team=billing, or team for any value. May be repeated; all must hold.
    #[arg(short = 'l', long, value_name = "LABEL")]
    pub selector: Vec<String>,
}
