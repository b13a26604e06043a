//! An etcd server keeps its data and ports over stops, crashes, freezes and second launchers.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use stack::etcd::{Etcd, Options};
use stack::testkit::{TempFolder, shared_etcd};

/// Posts to etcd's JSON gateway, so that this test needs no client library.
fn post(etcd: &Etcd, path: &str, body: &str) -> std::io::Result<String> {
    let address = etcd.endpoints()[0].trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn put(etcd: &Etcd) {
    let answer = post(etcd, "/v3/kv/put", r#"{"key":"a2V5","value":"a2VwdA=="}"#).unwrap();
    assert!(answer.contains("revision"), "{answer}");
}

fn kept(etcd: &Etcd) -> bool {
    post(etcd, "/v3/kv/range", r#"{"key":"a2V5"}"#).is_ok_and(|answer| answer.contains("a2VwdA=="))
}

#[tokio::test]
async fn data_and_ports_survive_stop_and_kill() {
    let folder = TempFolder::create("etcd-restart").unwrap();
    let mut etcd = Etcd::start(folder.path(), Options::for_tests()).await.unwrap();
    let endpoints = etcd.endpoints();
    put(&etcd);
    etcd.restart().await.unwrap();
    etcd.kill().unwrap();
    assert!(!kept(&etcd));
    etcd.start_again().await.unwrap();
    assert_eq!(etcd.endpoints(), endpoints);
    assert!(kept(&etcd));
}

#[tokio::test]
async fn a_second_launcher_finds_the_data_again() {
    let folder = TempFolder::create("etcd-again").unwrap();
    let first = Etcd::start(folder.path(), Options::durable()).await.unwrap();
    put(&first);
    drop(first);
    let second = Etcd::start(folder.path(), Options::durable()).await.unwrap();
    assert!(kept(&second));
}

#[tokio::test]
async fn a_frozen_server_answers_nothing_until_it_thaws() {
    let folder = TempFolder::create("etcd-frozen").unwrap();
    let etcd = Etcd::start(folder.path(), Options::for_tests()).await.unwrap();
    put(&etcd);
    etcd.freeze().unwrap();
    assert!(!kept(&etcd));
    etcd.thaw().unwrap();
    assert!(kept(&etcd));
}

#[tokio::test]
async fn tests_of_one_process_share_one_server() {
    let (one, two) = tokio::join!(shared_etcd(), shared_etcd());
    assert_eq!(one.pid(), two.pid());
}
