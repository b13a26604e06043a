//! The command line with a terminal at both its ends.

use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

/// What a command writes to a terminal so many columns wide, results, progress and what moves the cursor alike.
pub fn said(mut command: Command, columns: u16) -> String {
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(&size, None).expect("a terminal");
    let end = || Stdio::from(terminal.slave.try_clone().expect("its other end"));
    let mut child = command.stdout(end()).stderr(end()).spawn().expect("the command line starts");
    drop((command, terminal.slave));
    let mut said = Vec::new();
    // Reading ends with an error once the last writer has gone.
    let _ = File::from(terminal.master).read_to_end(&mut said);
    child.wait().expect("it ends");
    String::from_utf8_lossy(&said).into_owned()
}
