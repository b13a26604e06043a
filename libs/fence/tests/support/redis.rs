//! A Redis server on a free port, and the little of its protocol that the tests speak.

use stack::ports::Port;
use stack::process::{ManagedChild, Spec};
use stack::testkit::TempFolder;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// A server that ends with its test. One that can't be started fails the test.
pub struct Redis {
    port: Port,
    _server: ManagedChild,
    _folder: TempFolder,
}

impl Redis {
    /// Starts it and waits until it answers.
    pub fn start() -> Self {
        let folder = TempFolder::create("redis").expect("a folder");
        let port = Port::reserve().expect("a port");
        let spec = Spec::new("redis", "redis-server", folder.path().join("redis.log"))
            .args(["--bind", "127.0.0.1", "--port", &port.number().to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(folder.path());
        let mut server = ManagedChild::spawn(&spec)
            .unwrap_or_else(|error| panic!("{error}: install the Debian package redis-server"));
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port.number())).is_err() {
            let ended = server.exited().expect("its state");
            assert!(ended.is_none() && began.elapsed() < LIMIT, "no Redis: {}", server.log_tail());
            std::thread::sleep(stack::wait::POLL_EVERY);
        }
        Self { port, _server: server, _folder: folder }
    }

    /// One more connection.
    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.port.number())).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        Connection(BufReader::new(stream))
    }
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status or a string.
    Text(String),
    /// An integer.
    Number(i64),
    /// Strings.
    List(Vec<String>),
    /// An error, without the sign before it.
    Error(String),
    /// Nothing there.
    Nil,
}

/// A client's connection.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Sends a command and reads its answer.
    pub fn call(&mut self, words: &[&str]) -> Reply {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(request.as_bytes()).expect("sent");
        self.read()
    }

    fn read(&mut self) -> Reply {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        let (kind, rest) = line.trim_end().split_at(1);
        let count = || rest.parse::<i64>().expect("a number");
        match (kind, rest) {
            ("+", text) => Reply::Text(text.to_owned()),
            ("-", text) => Reply::Error(text.to_owned()),
            (":", _) => Reply::Number(count()),
            ("$", "-1") => Reply::Nil,
            ("$", _) => {
                let mut text = vec![0; usize::try_from(count()).expect("a length") + 2];
                self.0.read_exact(&mut text).expect("the text");
                text.truncate(text.len() - 2);
                Reply::Text(String::from_utf8(text).expect("UTF-8"))
            }
            ("*", _) => Reply::List((0..count()).map(|_| self.text()).collect()),
            _ => panic!("an answer that the tests do not know: {line:?}"),
        }
    }

    fn text(&mut self) -> String {
        match self.read() {
            Reply::Text(text) => text,
            other => panic!("{other:?} in a list"),
        }
    }
}
