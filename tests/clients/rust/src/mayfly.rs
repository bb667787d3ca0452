//! The server under test: its addresses, and its clock.

use mongodb::bson::DateTime;
use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

static MADE: AtomicU64 = AtomicU64::new(0);

/// What the runner says of the server under a name.
pub fn address(name: &str) -> String {
    env::var(format!("MAYFLY_{name}"))
        .unwrap_or_else(|_| panic!("MAYFLY_{name} is not set: run `make test ONLY=clients`"))
}

/// A name that no other test has, be it of another process.
pub fn name(prefix: &str) -> String {
    format!(
        "{prefix}-{}-{}",
        process::id(),
        MADE.fetch_add(1, Ordering::Relaxed)
    )
}

/// Moves the server's clock, and returns when everything that was due is done.
pub fn advance(seconds: u64) {
    post("/clock/advance", &format!(r#"{{"by": "{seconds}s"}}"#));
}

/// The server's time in seconds since 1970.
pub fn now() -> i64 {
    let answer = ask("GET", "/clock", "");
    let found = answer
        .split(r#""now":""#)
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("a time");
    DateTime::parse_rfc3339_str(found)
        .expect("a time")
        .timestamp_millis()
        / 1000
}

fn post(path: &str, body: &str) {
    ask("POST", path, body);
}

fn ask(method: &str, path: &str, body: &str) -> String {
    let admin = address("ADMIN");
    let (host, root) = admin
        .trim_start_matches("http://")
        .split_once('/')
        .expect("an address with a path");
    let mut stream = TcpStream::connect(host).expect("the server is there");
    let length = body.len();
    write!(
        stream,
        "{method} /{root}{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .expect("the request is sent");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("the answer is read");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    answer
}
