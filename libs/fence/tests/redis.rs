//! The guard of a Redis against zombie writers, in a real server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use fence::redis::{BAD_TOKEN, GUARD, STALE};
use std::collections::BTreeSet;
use support::redis::{Connection, Redis, Reply};

/// Tokens of an attempt and of the one after it: neighbours that doubles can't tell apart.
const OLDER: i64 = 1 << 53;
const NEWER: i64 = OLDER + 1;

/// Runs `command` on the key `{report}` under the guard `{report}:fence`.
fn guarded(connection: &mut Connection, token: &str, ttl_s: &str, command: &[&str]) -> Reply {
    let fixed = ["EVAL", GUARD, "2", "{report}:fence", "{report}", token, ttl_s];
    connection.call(&[&fixed, command].concat())
}

fn set(connection: &mut Connection, token: i64, value: &str) -> Reply {
    guarded(connection, &token.to_string(), "0", &["SET", "{report}", value])
}

#[track_caller]
fn assert_error(reply: Reply, first_word: &str) {
    match reply {
        Reply::Error(text) => assert_eq!(text.split(' ').next(), Some(first_word), "{text}"),
        other => panic!("{other:?} instead of {first_word}"),
    }
}

#[test]
fn a_zombie_is_refused_once_a_newer_attempt_has_written() {
    let redis = Redis::start();
    let (mut zombie, mut successor) = (redis.connect(), redis.connect());
    assert_eq!(set(&mut zombie, OLDER, "half"), Reply::Text("OK".into()));
    assert_eq!(set(&mut zombie, OLDER, "more"), Reply::Text("OK".into()), "an attempt writes again");
    assert_eq!(set(&mut successor, NEWER, "whole"), Reply::Text("OK".into()));
    assert_error(set(&mut zombie, OLDER, "late"), STALE);
    assert_eq!(successor.call(&["GET", "{report}"]), Reply::Text("whole".into()));
}

#[test]
fn tokens_are_compared_by_length_and_then_by_letter() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let rising =
        [1, 9, 10, 99, 100, OLDER - 1, OLDER, NEWER, 17_592_186_044_416 * 600, i64::MAX - 1, i64::MAX];
    for pair in rising.windows(2) {
        let (lower, higher) = (pair[0], pair[1]);
        connection.call(&["DEL", "{report}:fence"]);
        assert_eq!(set(&mut connection, lower, "x"), Reply::Text("OK".into()));
        assert_eq!(set(&mut connection, higher, "x"), Reply::Text("OK".into()), "{higher} after {lower}");
        assert_error(set(&mut connection, lower, "x"), STALE);
    }
}

#[test]
fn without_a_command_the_token_is_only_remembered() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let remember = |connection: &mut Connection, token: i64| {
        connection.call(&["EVAL", GUARD, "1", "job", &token.to_string(), "0"])
    };
    assert_eq!(remember(&mut connection, NEWER), Reply::Text("OK".into()));
    assert_error(remember(&mut connection, OLDER), STALE);
    assert_eq!(connection.call(&["GET", "job"]), Reply::Text(NEWER.to_string()));
}

#[test]
fn what_is_no_token_is_refused_and_changes_nothing() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    for token in ["", "0", "007", "-1", "1e3", "nan", "9223372036854775808", "99999999999999999999"] {
        assert_error(guarded(&mut connection, token, "0", &["SET", "{report}", "x"]), BAD_TOKEN);
    }
    assert_error(guarded(&mut connection, "7", "", &["SET", "{report}", "x"]), "BADTTL");
    assert_error(guarded(&mut connection, "7", "1.5", &["SET", "{report}", "x"]), "BADTTL");
    assert_eq!(connection.call(&["EXISTS", "{report}", "{report}:fence"]), Reply::Number(0));
    connection.call(&["SET", "{report}:fence", "a stranger's"]);
    assert_error(set(&mut connection, NEWER, "x"), "BADSEEN");
}

#[test]
fn the_time_to_live_counts_from_the_last_write_and_zero_is_for_ever() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    set(&mut connection, OLDER, "x");
    assert_eq!(connection.call(&["TTL", "{report}:fence"]), Reply::Number(-1));
    for ttl_s in [500, 9_000] {
        guarded(&mut connection, &OLDER.to_string(), &ttl_s.to_string(), &["SET", "{report}", "x"]);
        let Reply::Number(left) = connection.call(&["TTL", "{report}:fence"]) else { panic!("no number") };
        assert!((ttl_s - 100..=ttl_s).contains(&left), "{left} of {ttl_s}");
    }
}

#[test]
fn a_failing_command_is_its_callers_error() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    set(&mut connection, OLDER, "text");
    assert_error(guarded(&mut connection, &OLDER.to_string(), "0", &["LPUSH", "{report}", "x"]), "WRONGTYPE");
    assert_eq!(set(&mut connection, OLDER, "again"), Reply::Text("OK".into()));
}

#[test]
fn of_many_writers_at_once_no_lower_one_writes_after_a_higher_one() {
    let redis = Redis::start();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let mut connection = redis.connect();
            std::thread::spawn(move || {
                for round in 0..200 {
                    let token = (OLDER + (round * 7 + writer * 3) % 50).to_string();
                    guarded(&mut connection, &token, "0", &["RPUSH", "{report}", &token]);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    let Reply::List(written) = redis.connect().call(&["LRANGE", "{report}", "0", "-1"]) else {
        panic!("no list")
    };
    let tokens: Vec<i64> = written.iter().map(|text| text.parse().expect("a token")).collect();
    assert!(tokens.is_sorted(), "a lower token has written after a higher one");
    assert_eq!(tokens.last(), Some(&(OLDER + 49)));
    let distinct: BTreeSet<_> = tokens.iter().collect();
    assert!(distinct.len() > 1 && tokens.len() < 8 * 200, "{} of {} passed", tokens.len(), 8 * 200);
}
