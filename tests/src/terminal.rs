//! The command line with a terminal at both its ends.

use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// Comes after all that a command has written, and in nothing that one writes.
const END: &[u8] = b"\x1e";

/// What a command writes to a terminal so many columns wide, results, progress and what moves the cursor alike.
pub fn said(mut command: Command, columns: u16) -> String {
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(&size, None).expect("a terminal");
    let end = || Stdio::from(terminal.slave.try_clone().expect("its other end"));
    let mut child = command.stdout(end()).stderr(end()).spawn().expect("the command line starts");
    drop(command);
    // The terminal itself does not say when its last writer has gone: what another test starts meanwhile has it, too.
    let waiting = std::thread::spawn(move || {
        child.wait().expect("it ends");
        File::from(terminal.slave).write_all(END).expect("written");
    });
    let mut master = File::from(terminal.master);
    let (mut said, mut part) = (Vec::new(), [0; 4_096]);
    while !said.ends_with(END) {
        let read = master.read(&mut part).expect("what it writes");
        said.extend_from_slice(&part[..read]);
    }
    waiting.join().expect("it ended");
    said.truncate(said.len() - END.len());
    String::from_utf8_lossy(&said).into_owned()
}
