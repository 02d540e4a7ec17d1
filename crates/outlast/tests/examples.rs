//! Every example runs and says what it promises.

#![allow(missing_docs, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;

/// An example that was built together with this test.
fn example(name: &str) -> Command {
    let mut path: PathBuf = std::env::current_exe().expect("this test has a path");
    path.pop();
    path.pop();
    let path = path.join("examples").join(name);
    assert!(path.exists(), "{} was not built: cargo test builds it together with the tests", path.display());
    Command::new(path)
}

/// Runs an example; gives what it printed.
fn run(name: &str) -> String {
    let output = example(name).output().expect("the example starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn hello_greets() {
    assert_eq!(run("hello"), "Hello, world!\n");
}

#[test]
fn approval_pays_the_good_order_and_refuses_the_bad_one() {
    let text = run("approval");
    assert!(
        text.contains("order 1 paid, approved by Ada") && text.contains("order 2 was refused by Grace"),
        "{text}"
    );
    assert_eq!(text.matches("charging").count(), 1, "{text}");
}

#[test]
fn fan_out_adds_everything_up() {
    assert_eq!(run("fan_out"), "5050 words on 100 pages\n");
}

#[test]
fn transaction_moves_the_money_once() {
    let text = run("transaction");
    assert!(
        text.contains("alice has 700 cents left") && text.contains("moved nothing: not enough money"),
        "{text}"
    );
}

#[cfg(feature = "rusqlite")]
#[test]
fn in_your_transaction_starts_what_commits() {
    let text = run("in_your_transaction");
    assert!(text.contains("committed: the parcel of order 1 is on its way"), "{text}");
    assert!(
        text.contains("rolled back: 1 order is left, and there is no run ship with key \"order-2\""),
        "{text}"
    );
}

#[test]
fn crash_and_resume_does_not_repeat_the_recorded_step() {
    let text = run("crash_and_resume");
    assert_eq!(text.matches("flying").count(), 1, "{text}");
    assert_eq!(text.matches("checking in").count(), 2, "{text}");
    assert!(text.contains("done: Oslo to Rome"), "{text}");
}

#[cfg(feature = "sqlx")]
mod axum_orders {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use outlast_testkit::{StoreKind, World, tell};
    use tokio::time::sleep;

    /// The example, serving; killed when the test is over, however it ends.
    struct Server {
        process: Child,
        lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
        address: String,
    }

    impl Server {
        fn start(world: &World) -> Server {
            let mut example = super::example("axum_orders");
            let example = example.env("DATABASE_URL", world.url()).env("PORT", "0").stdout(Stdio::piped());
            let mut process = example.spawn().expect("the example starts");
            let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
            let first = lines.next().expect("it says something").expect("in words");
            let address = first.strip_prefix("listening on http://").expect("it listens").to_owned();
            Server { process, lines, address }
        }

        /// The status and the body of an answer.
        fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
            let mut stream = TcpStream::connect(&self.address).expect("the server is there");
            stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a bound");
            let (host, length) = (&self.address, body.len());
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(request.as_bytes()).expect("it listens");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it answers");
            let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            (status.expect("a status"), body.to_owned())
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    #[test]
    fn an_order_and_its_job_are_there_together_or_not_at_all() {
        tell(StoreKind::Postgres, 1, async |world: World| {
            let mut server = Server::start(&world);
            let (status, body) = server.ask("POST", "/orders", r#"{"item":"tea","amount":3}"#);
            assert_eq!(status, 202, "{body}");
            let accepted: serde_json::Value = serde_json::from_str(&body).unwrap();

            let path = format!("/orders/{}", accepted["order"]);
            let order = loop {
                let (status, body) = server.ask("GET", &path, "");
                assert_eq!(status, 200, "{body}");
                let order: serde_json::Value = serde_json::from_str(&body).unwrap();
                if order["status"] == "completed" {
                    break order;
                }
                sleep(Duration::from_millis(10)).await;
            };
            assert_eq!((&order["packed"], &order["run"]), (&true.into(), &accepted["run"]), "{order}");

            let (status, body) = server.ask("POST", "/orders", r#"{"item":"tea","amount":0}"#);
            assert_eq!(status, 422, "{body}");
            assert_eq!(server.ask("GET", "/orders/2", "").0, 404);
            assert_eq!(world.count("select count(*) from orders").await, 1);
            assert_eq!(world.count("select count(*) from outlast.runs").await, 1);

            let interrupt = Command::new("kill").args(["-INT", &server.process.id().to_string()]).status();
            assert!(interrupt.expect("kill is there").success());
            assert!(server.process.wait().expect("it ends").success());
            assert_eq!(server.lines.next().expect("it says so").expect("in words"), "stopped");
        });
    }
}
