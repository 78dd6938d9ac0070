//! A server of MongoDB's protocol that enforces roles, on a loopback port of its own.

use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use muster_db_gateway::{Answer, Connection, Engine, Error, Limits};

use crate::servers::{self, Running};
use crate::world::{
    connection, corpus, is_not_let_in, limits, may_read, may_write, read, says_how_writes_get_an_account,
    traces,
};

struct Server {
    _running: Running,
    port: u16,
}

impl Server {
    async fn start() -> Option<Self> {
        let prepare = async |port: u16| {
            let client = Client::with_uri_str(format!("mongodb://127.0.0.1:{port}/?directConnection=true"))
                .await
                .unwrap();
            let app = client.database("app");
            let documents: Vec<Document> = (1..=30_i64)
                .map(|n| doc! { "_id": n, "k": n, "big": 9_007_199_254_740_993_i64 })
                .collect();
            app.collection::<Document>("a")
                .insert_many(documents)
                .await
                .unwrap();
            app.collection::<Document>("b")
                .insert_one(doc! { "_id": 1, "z": 1, "y": { "b": 1, "a": 2 } })
                .await
                .unwrap();
            for (user, role, db) in [
                ("reader", "read", "app"),
                ("writer", "readWrite", "app"),
                ("root", "root", "admin"),
            ] {
                let create = doc! { "createUser": user, "pwd": "SECRETPASSWORD", "roles": [{ "role": role, "db": db }] };
                client.database(db).run_command(create).await.unwrap();
            }
        };
        let (running, port) = servers::mongodb(prepare).await?;
        let server = Self {
            _running: running,
            port,
        };
        let version = server
            .admin()
            .await
            .database("admin")
            .run_command(doc! { "buildInfo": 1 })
            .await
            .unwrap();
        println!(
            "tried with SecantusDB, which says MongoDB {}",
            version.get_str("version").unwrap()
        );
        Some(server)
    }

    fn url(&self, user: &str, source: &str) -> String {
        format!(
            "mongodb://{user}:SECRETPASSWORD@127.0.0.1:{}/app?directConnection=true&authSource={source}",
            self.port
        )
    }

    fn reader(&self) -> Connection {
        connection(&self.url("reader", "app"), Some(&self.url("writer", "app")))
    }

    async fn admin(&self) -> Client {
        Client::with_uri_str(self.url("root", "admin")).await.unwrap()
    }

    /// Every document of every database, collections with their options, indexes, accounts.
    async fn world(&self, admin: &Client) -> String {
        let mut found = Vec::new();
        let mut names = admin.list_database_names().await.unwrap();
        names.sort();
        for name in names
            .iter()
            .filter(|name| !matches!(name.as_str(), "local" | "config"))
        {
            let database = admin.database(name);
            let reply = database.run_command(doc! { "listCollections": 1 }).await.unwrap();
            let collections = reply
                .get_document("cursor")
                .unwrap()
                .get_array("firstBatch")
                .unwrap()
                .clone();
            for collection in collections {
                let collection = collection.as_document().unwrap().clone();
                found.push(format!("{name} {collection}"));
                let title = collection.get_str("name").unwrap();
                let find = doc! { "find": title, "batchSize": 1000, "sort": { "_id": 1 } };
                let reply = database.run_command(find).await.unwrap();
                for document in reply
                    .get_document("cursor")
                    .unwrap()
                    .get_array("firstBatch")
                    .unwrap()
                {
                    found.push(format!("{name}.{title} {document}"));
                }
            }
        }
        let users = admin
            .database("app")
            .run_command(doc! { "usersInfo": 1 })
            .await
            .unwrap();
        found.push(Bson::Array(users.get_array("users").unwrap().clone()).to_string());
        found.join("\n")
    }
}

fn document(answer: Result<Answer, Error>) -> String {
    match answer {
        Ok(answer) => serde_json::to_string(&answer).unwrap(),
        Err(error) => panic!("{error}"),
    }
}

mod heavy {
    use super::*;

    // spec: DBA-005 DBA-022..DBA-027
    #[tokio::test(flavor = "multi_thread")]
    async fn no_command_of_the_corpus_leaves_a_trace_when_it_is_read() {
        let Some(server) = Server::start().await else {
            return;
        };
        let admin = server.admin().await;
        let before = server.world(&admin).await;
        // As the narrow account, and as one that could do everything: then only the gate stands.
        for connection in [server.reader(), connection(&server.url("root", "admin"), None)] {
            for (statement, expected) in corpus(Engine::Mongodb) {
                let answer = read(&connection, &statement).await;
                assert_eq!(
                    matches!(answer, Err(Error::Gate { .. })),
                    expected != "read",
                    "{statement}: {answer:?}"
                );
            }
            assert_eq!(traces(&before, &server.world(&admin).await), [""; 0]);
        }

        // An account that may do more is told from one that only reads.
        let narrow = server.reader();
        let wide = narrow.wide().await.unwrap();
        assert!(!wide.wide, "{:?}", wide.reasons);
        for guarantee in narrow.check().await {
            assert!(guarantee.ok, "{guarantee:?}");
        }
        for url in [server.url("writer", "app"), server.url("root", "admin")] {
            let wide = connection(&url, None).wide().await.unwrap();
            assert!(wide.wide && wide.statements[0].contains("role: \"read\""));
        }
    }

    // spec: DBA-003
    #[tokio::test(flavor = "multi_thread")]
    async fn a_write_stays_in_the_database_of_its_connection() {
        let Some(server) = Server::start().await else {
            return;
        };
        let connection = connection(&server.url("root", "admin"), None);
        for stage in [
            r#"{"$out":{"db":"other","coll":"b"}}"#,
            r#"{"$merge":{"into":{"db":"other","coll":"b"}}}"#,
        ] {
            let command = format!(r#"{{"aggregate":"a","pipeline":[{stage}],"cursor":{{}}}}"#);
            let answer = connection.write(&may_write(), &command, true, limits()).await;
            assert!(
                matches!(&answer, Err(Error::Gate { verdict }) if verdict.reason.contains("other")),
                "{command}: {answer:?}"
            );
            let here = command.replace("other", "app");
            let answer = connection.write(&may_write(), &here, true, limits()).await;
            assert!(answer.is_ok(), "{here}: {answer:?}");
        }
    }

    // spec: DBA-001..DBA-003 DBA-013 DBA-014 DBA-022..DBA-027
    #[tokio::test(flavor = "multi_thread")]
    async fn documents_keep_their_order_and_their_limits() {
        let Some(server) = Server::start().await else {
            return;
        };
        let connection = server.reader();
        let found = document(read(&connection, r#"{"find":"b"}"#).await);
        assert!(found.contains(r#"{"_id":1,"z":1,"y":{"b":1,"a":2}}"#), "{found}");
        let big = document(
            read(
                &connection,
                r#"{"find":"a","filter":{"_id":{"$numberLong":"1"}}}"#,
            )
            .await,
        );
        assert!(
            big.contains(r#""big":{"$numberLong":"9007199254740993"}"#),
            "{big}"
        );
        let few = Limits { rows: 7, ..limits() };
        for command in [
            r#"{"find":"a","batchSize":1000000}"#,
            r#"{"aggregate":"a","pipeline":[],"cursor":{"batchSize":100000}}"#,
        ] {
            let Answer::Document { document, truncated } =
                connection.read(&may_read(), command, few).await.unwrap()
            else {
                panic!()
            };
            assert!(truncated, "{command}");
            assert_eq!(
                document.get().matches("\"_id\"").count(),
                7,
                "{command}: {document}"
            );
        }
        let elsewhere = read(&connection, r#"{"find":"a","$db":"other"}"#).await;
        assert!(matches!(elsewhere, Err(Error::Gate { .. })));
        let insert = r#"{"insert":"b","documents":[{"_id":2}]}"#;
        assert!(read(&connection, insert).await.is_err());
        assert!(
            connection
                .write(&may_read(), insert, true, limits())
                .await
                .is_err()
        );
        assert!(
            connection
                .write(&may_write(), insert, false, limits())
                .await
                .is_err()
        );
        says_how_writes_get_an_account(&server.url("reader", "app"), insert).await;
        assert!(document(connection.write(&may_write(), insert, true, limits()).await).contains("\"n\":1"));
        let again = connection
            .write(&may_write(), insert, true, limits())
            .await
            .unwrap_err();
        assert_eq!(again.engine_code(), Some("11000"));
        assert!(
            again
                .to_string()
                .contains("Nothing else of the command was done."),
            "{again}"
        );
        // One of two was stored, and that is said.
        let both = r#"{"insert":"b","documents":[{"_id":77},{"_id":2}]}"#;
        let partly = connection
            .write(&may_write(), both, true, limits())
            .await
            .unwrap_err();
        assert!(partly.to_string().contains("the server counts 1."), "{partly}");
        assert!(document(read(&connection, r#"{"count":"b","query":{"_id":77}}"#).await).contains("\"n\":1"));
        // An account that could write everywhere writes to its own database alone.
        let admin = server.admin().await;
        let everywhere = self::connection(&server.url("root", "admin"), None);
        for stage in [
            r#"{"$out":{"db":"other","coll":"stolen"}}"#,
            r#"{"$merge":{"into":{"db":"other","coll":"stolen"}}}"#,
        ] {
            let command = format!(r#"{{"aggregate":"a","pipeline":[{stage}],"cursor":{{}}}}"#);
            let refused = everywhere.write(&may_write(), &command, true, limits()).await;
            assert!(matches!(refused, Err(Error::Gate { .. })), "{refused:?}");
        }
        assert!(
            !admin
                .list_database_names()
                .await
                .unwrap()
                .contains(&"other".to_owned())
        );
        let own = r#"{"aggregate":"a","pipeline":[{"$out":"copy"}],"cursor":{}}"#;
        document(everywhere.write(&may_write(), own, true, limits()).await);
        document(
            everywhere
                .write(&may_write(), r#"{"drop":"copy"}"#, true, limits())
                .await,
        );
        let permit = may_read();
        let objects = connection.objects(&permit, None, limits()).await.unwrap().all;
        assert_eq!(
            objects
                .iter()
                .map(|object| object.name.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        let one = Limits { rows: 1, ..limits() };
        let cut = connection.objects(&permit, None, one).await.unwrap();
        assert_eq!((cut.all.len(), cut.truncated), (1, true));
        assert!(!connection.schemas(&permit, one).await.unwrap().truncated);
        // Who names one has it, whatever is before it in the list.
        for name in ["a", "b", "app.b"] {
            let described = connection.describe(&permit, name, one).await.unwrap();
            assert_eq!(described.object.name, name.trim_start_matches("app."));
        }
        let missing = connection.describe(&permit, "c", limits()).await.unwrap_err();
        assert_eq!(missing.code(), "not_found");
        let described = connection.describe(&permit, "a", limits()).await.unwrap();
        assert_eq!(described.columns[0].name, "_id");
        assert_eq!(described.indexes[0].name, "_id_");
        assert!(matches!(
            connection
                .preview(&permit, "a", 3, false, limits())
                .await
                .unwrap(),
            Answer::Document { truncated: true, .. }
        ));
        assert!(
            connection
                .explain(&permit, r#"{"find":"a"}"#, limits())
                .await
                .unwrap()
                .is_object()
        );
        let small = Limits {
            bytes: 40,
            ..limits()
        };
        let cut = connection
            .explain(&permit, r#"{"find":"a"}"#, small)
            .await
            .unwrap();
        let (shown, said) = cut.as_str().unwrap().split_once('\n').unwrap();
        assert!(
            shown.starts_with('{') && shown.len() == 40 && said == "(more was cut off)",
            "{cut}"
        );
        is_not_let_in(
            &server
                .url("reader", "app")
                .replace("SECRETPASSWORD", "OTHERPASSWORD"),
            "OTHERPASSWORD",
        )
        .await;
        let wrong = self::connection(
            &server
                .url("reader", "app")
                .replace("SECRETPASSWORD", "OTHERPASSWORD"),
            None,
        );
        let error = read(&wrong, r#"{"find":"a"}"#).await.unwrap_err();
        assert!(
            !format!("{error} {error:?} {wrong:?}").contains("OTHERPASSWORD"),
            "{error}"
        );
        let nobody = self::connection("mongodb://127.0.0.1:1/app?directConnection=true", None);
        for error in [error, read(&nobody, r#"{"find":"a"}"#).await.unwrap_err()] {
            let said = error.to_string();
            assert!(!said.contains(['{', '}']) && !said.contains("Some("), "{said}");
        }
    }
}
