//! What can be typed about channels.

use super::alerting::Level;
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub struct Channels {
    #[command(subcommand)]
    pub action: ChannelAction,
}

#[derive(Debug, Subcommand)]
pub enum ChannelAction {
    /// Stores a new one.
    #[command(subcommand)]
    Create(ChannelTarget),
    /// Shows all of them.
    List,
    /// Shows one, without its secret.
    Get(ChannelName),
    /// Deletes one that no job names.
    Delete(ChannelName),
    /// Sends a test message by the way that alerts take, and says how that went; fails when it was not received.
    Test(ChannelName),
    /// Shows what was told to one, the newest first, and with which answer.
    Deliveries(ChannelDeliveries),
}

#[derive(Debug, Args)]
pub struct ChannelName {
    /// Its name.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct ChannelDeliveries {
    /// Its name.
    pub name: String,
    /// How many at most.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
}

/// Where a new channel leads.
#[derive(Debug, Subcommand)]
pub enum ChannelTarget {
    /// A POST of JSON; the secret, whsec_ and base64, signs it as Standard Webhooks describes.
    Webhook {
        #[command(flatten)]
        common: ChannelCommon,
        /// Where to post.
        #[arg(long)]
        url: String,
    },
    /// Prometheus Alertmanager; the secret is the user's password, or without a user a bearer token.
    Alertmanager {
        #[command(flatten)]
        common: ChannelCommon,
        /// Its address, without /api/v2/alerts.
        #[arg(long)]
        url: String,
        /// For basic authentication.
        #[arg(long, default_value = "")]
        username: String,
    },
    /// PagerDuty; the secret is the integration key of a service's Events API v2 integration.
    Pagerduty {
        #[command(flatten)]
        common: ChannelCommon,
        /// Where to post events, for a service region of its own.
        #[arg(long, default_value = "")]
        url: String,
    },
    /// Slack, or what takes its incoming webhooks; the secret is the incoming webhook's address.
    Slack {
        #[command(flatten)]
        common: ChannelCommon,
    },
    /// Mail; the secret is the user's password.
    Email {
        #[command(flatten)]
        common: ChannelCommon,
        /// The mail server's name or address.
        #[arg(long)]
        host: String,
        /// Its port; 587, or 465 with --tls tls, without it.
        #[arg(long)]
        port: Option<u16>,
        /// How the server is spoken to.
        #[arg(long, value_enum, default_value_t = Encryption::Starttls)]
        tls: Encryption,
        /// As whom to sign in.
        #[arg(long, default_value = "")]
        username: String,
        /// The sender's address.
        #[arg(long)]
        from: String,
        /// A receiver's address. May be repeated.
        #[arg(long, required = true)]
        to: Vec<String>,
    },
}

/// How a mail server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Encryption {
    /// In the clear first, then encrypted.
    Starttls,
    /// Encrypted from the first byte.
    Tls,
    /// In the clear; only to this machine.
    None,
}

#[derive(Debug, Args)]
pub struct ChannelCommon {
    /// Its name.
    pub name: String,
    /// What it takes to get in; never shown again. Others of this machine see arguments: the variable is safer.
    #[arg(long, env = "ESCAPEMENT_CHANNEL_SECRET", hide_env_values = true)]
    pub secret: Option<String>,
    /// A label that an alert must have to be told here, as name=value, unless its owner names the channel. May be
    /// repeated.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// How grave an alert must be to be told here, unless its owner names the channel. May be repeated.
    #[arg(long = "severity", value_enum)]
    pub severities: Vec<Level>,
    /// Does not tell of the system's own alerts here.
    #[arg(long)]
    pub no_system: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| format!("{text:?}: use name=value"))?;
    Ok((name.to_owned(), value.to_owned()))
}
