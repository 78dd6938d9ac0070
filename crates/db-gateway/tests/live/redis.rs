//! Redis and Valkey, each on a socket of its own.

use std::process::Command;
use std::time::{Duration, Instant};

use muster_db_gateway::{Answer, Class, Connection, Engine, Error, Limits, classify};

use crate::servers::{self, Running};
use crate::world::{
    connection, corpus, is_not_let_in, limits, may_read, may_write, read, says_how_writes_get_an_account,
    traces,
};

struct Server(Running);

impl Server {
    fn all() -> impl Iterator<Item = Self> {
        servers::redis_and_valkey().map(Self::filled)
    }

    fn filled(running: Running) -> Self {
        let server = Self(running);
        for line in [
            "SET k v",
            "RPUSH l 1 2 3",
            "SADD s a b",
            "ZADD z 1 a 2 b",
            "HSET h f 1",
            "XADD x 1-1 a b",
            "GEOADD g 1 2 m",
            "PFADD p a",
            "XGROUP CREATE x g 0",
            "SET a 1 EX 10000",
        ] {
            server.admin(line);
        }
        server
    }

    fn admin(&self, line: &str) -> String {
        let output = servers::out(
            Command::new("redis-cli")
                .arg("-s")
                .arg(servers::socket(&self.0))
                .args(["--user", "default", "--pass", "root", "--no-auth-warning"])
                .args(line.split(' ')),
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Every command and subcommand of the server's with its flags.
    fn table(&self) -> Vec<(String, Vec<String>)> {
        let said: serde_json::Value = serde_json::from_str(&self.admin("--json COMMAND")).unwrap();
        let mut found = Vec::new();
        let mut left: Vec<serde_json::Value> = said.as_array().unwrap().clone();
        while let Some(command) = left.pop() {
            left.extend(command[9].as_array().unwrap().iter().cloned());
            let flags = command[2].as_array().unwrap().iter();
            let flags = flags.map(|flag| flag.as_str().unwrap().to_owned()).collect();
            found.push((command[0].as_str().unwrap().to_owned(), flags));
        }
        found
    }

    fn url(&self, account: &str) -> String {
        format!("redis://{account}localhost/0?socket={}", servers::socket(&self.0))
    }

    /// Keys with their values and lapses, settings, accounts, other sessions.
    fn world(&self) -> String {
        let script = "local r = {} for _, k in ipairs(redis.call('KEYS', '*')) do r[#r + 1] = k .. ' ' .. \
             redis.sha1hex(redis.call('DUMP', k)) .. ' ' .. redis.call('EXPIRETIME', k) end table.sort(r) \
             r[#r + 1] = redis.call('XPENDING', 'x', 'g')[1] r[#r + 1] = #redis.call('FUNCTION', 'LIST') return r";
        let output = servers::out(
            Command::new("redis-cli")
                .arg("-s")
                .arg(servers::socket(&self.0))
                .args(["EVAL", script, "0"]),
        );
        let keys = String::from_utf8_lossy(&output.stdout).into_owned();
        let rest = ["CONFIG GET *", "ACL LIST", "INFO replication"].map(|line| self.admin(line));
        format!("{keys}\n{}", rest.join("\n"))
    }
}

fn reply(answer: Result<Answer, Error>) -> String {
    match answer {
        Ok(answer) => serde_json::to_string(&answer).unwrap(),
        Err(error) => panic!("{error}"),
    }
}

async fn passes(connection: &Connection, statement: &str) -> String {
    reply(read(connection, statement).await)
}

mod heavy {
    use super::*;

    // spec: DBA-005 DBA-017..DBA-021
    #[tokio::test(flavor = "multi_thread")]
    async fn no_command_of_the_corpus_leaves_a_trace_when_it_is_read() {
        for server in Server::all() {
            let before = server.world();
            let connection = connection(&server.url(""), None);
            for (statement, expected) in corpus(Engine::Redis) {
                let short = Limits {
                    time: Duration::from_secs(2),
                    ..limits()
                };
                let answer = connection.read(&may_read(), &statement, short).await;
                assert_eq!(
                    matches!(answer, Err(Error::Gate { .. })),
                    expected != "read",
                    "{statement}: {answer:?}"
                );
                // Of modules that are not there, of another policy of eviction, of a key of another kind; all others are answered.
                let excused = [
                    "JSON.",
                    "FT.",
                    "OBJECT FREQ",
                    "GEORADIUS",
                    "BITFIELD_RO",
                    "LCS",
                    "SORT_RO",
                ];
                if expected == "read" && !excused.iter().any(|word| statement.starts_with(word)) {
                    let missing = matches!(&answer, Err(Error::Engine { code, message, .. })
                    if code == "WRONGTYPE" || message.contains("no such key"));
                    assert!(answer.is_ok() || missing, "{statement}: {answer:?}");
                }
                // What the gate stopped was not sent.
                if expected == "read" {
                    assert_eq!(traces(&before, &server.world()), [""; 0], "{statement}");
                }
            }
            assert_eq!(traces(&before, &server.world()), [""; 0]);
        }
    }

    // spec: DBA-005 DBA-017
    #[test]
    fn no_command_that_the_server_itself_calls_a_write_is_a_read() {
        for server in Server::all() {
            let table = server.table();
            assert!(table.len() > 300, "{}", table.len());
            for (name, flags) in table {
                let verdict = classify(Engine::Redis, &name.replace('|', " "));
                let writes = flags.iter().any(|flag| flag == "write");
                assert!(
                    !writes || verdict.class != Class::Read,
                    "{name} {flags:?} {verdict:?}"
                );
            }
        }
    }

    // spec: DBA-001..DBA-003 DBA-013 DBA-017..DBA-020
    #[tokio::test(flavor = "multi_thread")]
    async fn replies_keep_their_kinds_and_their_limits() {
        for server in Server::all() {
            let connection = connection(&server.url(""), None);
            assert_eq!(
                passes(&connection, "get k").await,
                r#"{"reply":"v","truncated":false}"#
            );
            assert_eq!(
                passes(&connection, "GET nothere").await,
                r#"{"reply":null,"truncated":false}"#
            );
            assert_eq!(
                passes(&connection, "LRANGE l 0 -1").await,
                r#"{"reply":["1","2","3"],"truncated":false}"#
            );
            assert_eq!(
                passes(&connection, "DBSIZE").await,
                r#"{"reply":9,"truncated":false}"#
            );
            assert_eq!(
                passes(&connection, "XRANGE x - +").await,
                r#"{"reply":[["1-1",["a","b"]]],"truncated":false}"#
            );
            let bytes = connection
                .write(&may_write(), r#"SET k "\xff""#, true, limits())
                .await;
            assert_eq!(reply(bytes), r#"{"reply":"OK","truncated":false}"#);
            assert_eq!(
                passes(&connection, "MGET k nothere").await,
                r#"{"reply":["/w==",null],"truncated":false}"#
            );
            for line in ["GETDEL k", " getdel k", "EVAL \"return 1\" 0", "SORT l STORE m"] {
                assert!(
                    matches!(read(&connection, line).await, Err(Error::Gate { .. })),
                    "{line}"
                );
            }
            let written = connection
                .write(&may_write(), "SET k \"a b\\x00\"", true, limits())
                .await;
            assert_eq!(reply(written), r#"{"reply":"OK","truncated":false}"#);
            assert_eq!(
                passes(&connection, "STRLEN k").await,
                r#"{"reply":4,"truncated":false}"#
            );
            assert!(
                connection
                    .write(&may_read(), "SET k 1", true, limits())
                    .await
                    .is_err()
            );

            server.admin("EVAL for\ti=1,5000\tdo\tredis.call('RPUSH','big',i)\tend 0");
            server.admin("SETRANGE huge 30000000 x");
            let list = read(&connection, "LRANGE big 0 -1").await.unwrap();
            let Answer::Reply {
                reply: muster_db_gateway::Cell::List(cells),
                truncated,
            } = list
            else {
                panic!()
            };
            assert!(truncated && cells.len() == 1000, "{}", cells.len());
            let huge = read(&connection, "GET huge").await.unwrap();
            assert!(matches!(huge, Answer::Reply { truncated: true, .. }));
            assert_eq!(
                passes(&connection, "LLEN big").await,
                r#"{"reply":5000,"truncated":false}"#
            );

            let begun = Instant::now();
            let short = Limits {
                time: Duration::from_millis(200),
                ..limits()
            };
            let blocked = connection
                .read(&may_read(), "XREAD BLOCK 30000 STREAMS x $", short)
                .await;
            assert!(matches!(blocked, Err(Error::TimedOut { .. })), "{blocked:?}");
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "the server was waited for"
            );
            let wrong = read(&connection, "LRANGE k 0 1").await.unwrap_err();
            assert_eq!(wrong.engine_code(), Some("WRONGTYPE"));
            let objects = connection.objects(&may_read(), None, limits()).await.unwrap().all;
            assert!(
                objects
                    .iter()
                    .any(|object| object.name == "h" && object.kind == "hash")
            );
            assert_eq!(
                connection
                    .describe(&may_read(), "h", limits())
                    .await
                    .unwrap()
                    .object
                    .kind,
                "hash"
            );
            assert!(
                connection
                    .preview(&may_read(), "z", 1, false, limits())
                    .await
                    .is_ok()
            );
            assert_eq!(
                connection
                    .describe(&may_read(), "nothere", limits())
                    .await
                    .unwrap_err()
                    .code(),
                "not_found"
            );
            let plan = connection.explain(&may_read(), "GET k", limits()).await.unwrap();
            assert_eq!(plan["verdict"], "read");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_account_that_may_do_more_is_told_from_one_that_only_reads() {
        for server in Server::all() {
            let open = connection(&server.url(""), None);
            let wide = open.wide().await.unwrap();
            assert!(wide.wide);
            let failed: Vec<_> = open
                .check()
                .await
                .into_iter()
                .filter(|found| !found.ok)
                .map(|found| found.id)
                .collect();
            assert_eq!(failed, ["narrow_account", "default_user_closed"]);
            // The one statement that is printed makes an account that passes, and shuts nobody else out.
            assert_eq!(wide.statements.len(), 1);
            server.admin(&wide.statements[0].replace("CHANGE_ME", "SECRETPASSWORD"));
            let narrow = connection(&server.url("muster_reader:SECRETPASSWORD@"), None);
            let wide = narrow.wide().await.unwrap();
            assert!(!wide.wide, "{:?}", wide.reasons);
            let failed: Vec<_> = narrow
                .check()
                .await
                .into_iter()
                .filter(|found| !found.ok)
                .map(|found| found.id)
                .collect();
            assert_eq!(failed, ["default_user_closed"]);
            server.admin("CONFIG SET requirepass root");
            for guarantee in narrow.check().await {
                assert!(guarantee.ok, "{guarantee:?}");
            }
            assert_eq!(
                passes(&narrow, "GET k").await,
                r#"{"reply":"v","truncated":false}"#
            );
            let wrong = connection(&server.url("muster_reader:OTHERPASSWORD@"), None);
            let error = read(&wrong, "GET k").await.unwrap_err();
            assert!(
                !format!("{error} {error:?} {wrong:?}").contains("OTHERPASSWORD"),
                "{error}"
            );
        }
    }

    // Of each kind: one that was granted by name, by category, by all but some; on its own keys; and what only reads.
    #[tokio::test(flavor = "multi_thread")]
    async fn whatever_way_an_account_came_to_a_right_that_writes_it_is_wide() {
        for server in Server::all() {
            let before = server.world();
            for (rules, named) in [
                ("~app:* +@all -@admin -@dangerous -@scripting", "SET"),
                ("~* +@read +@string +@hash", "SET"),
                ("~* +@all -del -pexpire -config -eval -publish", "SET"),
                ("~* -@all +@read +append +multi", "APPEND"),
                ("~app:* -@all +@read +append", "APPEND"),
                ("~* -@all +@read +append +acl|whoami +acl|dryrun", "APPEND"),
                ("~* -@all +@read +sadd +multi +discard", "SADD"),
                ("~* -@all +@read +zadd", "ZADD"),
                ("~* -@all +@read +xadd", "XADD"),
                ("~* -@all +@read +flushall", "FLUSHALL"),
                ("~* -@all +@read +config|set", "CONFIG SET"),
                ("~* -@all +@read +eval", "EVAL"),
                ("~* -@all +@read +fcall", "FCALL"),
                ("~* &* -@all +@read +publish", "PUBLISH"),
                ("~* resetchannels &only -@all +@read +publish", "PUBLISH"),
                ("%R~* -@all +@read +set", "SET"),
                // Everything is sent, and changes nothing.
                ("~* &* +@all -multi -acl|dryrun", "SET"),
            ] {
                server.admin(&format!("ACL SETUSER tried reset on >SECRETPASSWORD {rules}"));
                let account = connection(&server.url("tried:SECRETPASSWORD@"), None);
                let wide = account.wide().await.unwrap();
                assert!(wide.wide, "{rules}");
                assert!(wide.reasons[0].contains(named), "{rules}: {:?}", wide.reasons);
            }
            for rules in [
                "~* -@all +@read",
                "~* -@all +@read -@dangerous +ping +info +multi",
                "~app:* -@all +@read -@dangerous +ping +select",
                "~* -@all +@read +acl|whoami +acl|dryrun",
            ] {
                server.admin(&format!("ACL SETUSER tried reset on >SECRETPASSWORD {rules}"));
                let account = connection(&server.url("tried:SECRETPASSWORD@"), None);
                let wide = account.wide().await.unwrap();
                assert!(!wide.wide, "{rules}: {:?}", wide.reasons);
            }
            assert!(connection(&server.url(""), None).wide().await.unwrap().wide);
            server.admin("ACL DELUSER tried");
            assert_eq!(traces(&before, &server.world()), [""; 0]);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_a_script_keeps_busy_is_told_as_that() {
        for server in Server::all() {
            server.admin("CONFIG SET busy-reply-threshold 100");
            let connection = connection(&server.url(""), None);
            passes(&connection, "GET k").await;
            let mut endless = Command::new("redis-cli")
                .arg("-s")
                .arg(servers::socket(&server.0))
                .args(["EVAL", "while true do end", "0"])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let begun = Instant::now();
            let busy = loop {
                let short = Limits {
                    time: Duration::from_secs(1),
                    ..limits()
                };
                match connection.read(&may_read(), "GET k", short).await {
                    Err(error) if error.engine_code() == Some("BUSY") => break error,
                    _ => assert!(begun.elapsed() < Duration::from_secs(40), "it is not busy"),
                }
            };
            assert!(busy.to_string().contains("SCRIPT KILL"), "{busy}");
            server.admin("SCRIPT KILL");
            endless.wait().unwrap();
            assert_eq!(
                passes(&connection, "GET k").await,
                r#"{"reply":"v","truncated":false}"#
            );
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_is_not_let_in_is_told_so_and_not_that_nobody_is_there() {
        for server in Server::all() {
            server.admin("ACL SETUSER reader on >SECRETPASSWORD ~* +@read +ping");
            server.admin("ACL SETUSER ended off >SECRETPASSWORD ~* +@read");
            says_how_writes_get_an_account(&server.url("reader:SECRETPASSWORD@"), "SET k v").await;
            let said = is_not_let_in(&server.url("reader:OTHERPASSWORD@"), "OTHERPASSWORD").await;
            assert!(said.contains("WRONGPASS"), "{said}");
            is_not_let_in(&server.url("ended:SECRETPASSWORD@"), "SECRETPASSWORD").await;
            is_not_let_in(&server.url(":SECRETPASSWORD@"), "SECRETPASSWORD").await;
            // It may not choose a database, there is none of that number, and nobody signed in.
            let third = |account: &str, number: &str| {
                let url = server.url(account);
                url.replace("/0?", &format!("/{number}?"))
            };
            let said = is_not_let_in(&third("reader:SECRETPASSWORD@", "3"), "SECRETPASSWORD").await;
            assert!(said.contains("NOPERM"), "{said}");
            is_not_let_in(&third("", "99"), "SECRETPASSWORD").await;
            server.admin("CONFIG SET requirepass root");
            let said = is_not_let_in(&third("", "3"), "SECRETPASSWORD").await;
            assert!(said.contains("NOAUTH"), "{said}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_list_of_keys_that_was_cut_says_so() {
        for server in Server::all() {
            let connection = connection(&server.url(""), None);
            let two = Limits { rows: 2, ..limits() };
            let cut = connection.objects(&may_read(), None, two).await.unwrap();
            assert_eq!((cut.all.len(), cut.truncated), (2, true));
            let whole = connection.objects(&may_read(), None, limits()).await.unwrap();
            assert_eq!((whole.all.len(), whole.truncated), (9, false));
            let just = Limits { rows: 9, ..limits() };
            let whole = connection.objects(&may_read(), None, just).await.unwrap();
            assert_eq!((whole.all.len(), whole.truncated), (9, false));
            assert!(!connection.schemas(&may_read(), two).await.unwrap().truncated);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn keys_are_listed_and_described_within_the_time_of_the_call() {
        for server in Server::all() {
            server.admin("CLIENT PAUSE 600000 ALL");
            let short = Limits {
                time: Duration::from_millis(300),
                ..limits()
            };
            let is_short = |error: Error| {
                let stopped = matches!(error, Error::TimedOut { after } if after == short.time);
                assert!(stopped, "{error:?}");
            };
            let fresh = || connection(&server.url(""), None);
            is_short(fresh().objects(&may_read(), None, short).await.unwrap_err());
            is_short(fresh().describe(&may_read(), "h", short).await.unwrap_err());
            is_short(
                fresh()
                    .preview(&may_read(), "h", 1, false, short)
                    .await
                    .unwrap_err(),
            );
            is_short(fresh().explain(&may_read(), "GET k", short).await.unwrap_err());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_write_that_was_given_up_may_be_done_or_not() {
        for server in Server::all() {
            let connection = connection(&server.url(""), None);
            let short = Limits {
                time: Duration::from_millis(300),
                ..limits()
            };
            let waiting = connection
                .write(&may_write(), "BLMOVE none l LEFT LEFT 60", true, short)
                .await
                .unwrap_err();
            assert!(matches!(waiting, Error::GivenUp { .. }), "{waiting:?}");
            assert!(waiting.to_string().contains("may be done"), "{waiting}");
            assert_eq!(waiting.engine_code(), Some("timeout"));
        }
    }
}
