//! Addresses: what is understood, what protects the way, what is never shown. Never connects.
#![cfg(test)]

use muster_db_gateway::{Connection, Engine, Url};

#[test]
fn every_scheme_is_understood_and_no_other() {
    for (text, engine) in [
        ("postgres://u:p@h/d", Engine::Postgres),
        ("postgresql://h", Engine::Postgres),
        ("PG://h", Engine::Postgres),
        ("sqlite3:///var/a.db", Engine::Sqlite),
        ("valkey://:p@h/1", Engine::Redis),
        ("mongo://u:p@h/d", Engine::Mongodb),
        ("mysql://u@h:3307/d", Engine::Mysql),
        ("mariadb://h/d", Engine::Mariadb),
        ("sqlite:a.db", Engine::Sqlite),
        ("sqlite:///var/a.db", Engine::Sqlite),
        ("redis://:p@h/1", Engine::Redis),
        ("rediss://h", Engine::Redis),
        ("mongodb://u:p@a:1,b:2/d?replicaSet=r", Engine::Mongodb),
        ("mongodb+srv://u:p@h/d", Engine::Mongodb),
    ] {
        assert_eq!(Url::parse(text).unwrap().engine(), engine, "{text}");
    }
    for text in [
        "",
        "h/d",
        "oracle://h",
        "postgres:",
        "sqlite:",
        "sqlite::memory:",
        "sqlite:a?mode=rwc",
        "postgres://h/d?sslmod=off",
        "postgres://h?options=-c",
        "postgres://h?sslmode=sometimes",
        "mysql://h?allowLocalInfile=true",
        "postgres://a,b/d",
        "postgres://h:x/d",
        "mongodb:h",
        "mongodb://",
        "postgres://h?host=a&host=b",
    ] {
        assert!(Url::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_way_off_the_machine_is_encrypted_unless_the_address_says_otherwise() {
    for (text, private) in [
        ("postgres://u@db.example/d", true),
        ("postgres://u@db.example/d?sslmode=prefer", true),
        ("postgres://u@db.example/d?sslmode=disable", false),
        ("postgres://u@127.0.0.1/d", true),
        ("postgres://u@localhost/d?host=/run/postgresql", true),
        ("mysql://u@10.0.0.5/d", true),
        ("mysql://u@10.0.0.5/d?ssl-mode=DISABLED", false),
        ("redis://10.0.0.5", true),
        ("redis://10.0.0.5?tls=off", false),
        ("redis://[::1]", true),
        ("mongodb://db.example/d", true),
        ("mongodb://db.example/d?tls=false", false),
        ("mongodb+srv://db.example/d", true),
    ] {
        assert_eq!(
            Url::parse(text).unwrap().is_encrypted_or_local(),
            private,
            "{text}"
        );
    }
}

#[test]
fn a_scheme_that_says_so_is_encrypted_on_this_machine_too() {
    for (text, tls) in [
        ("redis://127.0.0.1", "Off"),
        ("valkey://127.0.0.1", "Off"),
        ("rediss://127.0.0.1", "Verified"),
        ("VALKEYS://127.0.0.1", "Verified"),
    ] {
        let shown = format!("{:?}", Url::parse(text).unwrap());
        assert!(shown.contains(&format!("tls: {tls}")), "{shown}");
    }
}

// spec: DBA-014
#[test]
fn no_password_is_shown() {
    for text in [
        "postgres://u:S%40CRET@h/d",
        "mysql://u:S%40CRET@h/d",
        "redis://u:S%40CRET@h/0",
        "mongodb://u:S%40CRET@h/d",
        "postgres://h/d?user=u&password=S@CRET",
    ] {
        let url = Url::parse(text).unwrap();
        let connection = Connection::new("db_connection:x".parse().unwrap(), url.clone(), None).unwrap();
        let shown = format!("{url:?} {connection:?}");
        assert!(!shown.contains("CRET"), "{shown}");
    }
    for text in [
        "postgres://u:SECRET@h:port/d",
        "postgres://u:SECRET@h/d?x=SECRET",
        "mysql://u:SECRET@h/d?tls=SECRET",
        "what://u:SECRET@h",
    ] {
        let error = Url::parse(text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("SECRET"), "{error}");
    }
}

#[test]
fn a_connection_is_for_a_database_and_one_kind_of_it() {
    let read = || Url::parse("postgres://h/d").unwrap();
    assert!(Connection::new("project:x".parse().unwrap(), read(), None).is_err());
    let other = Url::parse("mysql://h/d").unwrap();
    assert!(Connection::new("db_connection:x".parse().unwrap(), read(), Some(other)).is_err());
    let (maria, mysql) = (
        Url::parse("mariadb://h/d").unwrap(),
        Url::parse("mysql://h/d").unwrap(),
    );
    assert!(Connection::new("db_connection:x".parse().unwrap(), maria, Some(mysql)).is_ok());
}

#[test]
fn no_part_of_a_password_is_repeated_as_the_name_of_a_parameter() {
    for text in [
        "postgres://u@h/d?password=abc&RestOfSecret99",
        "postgres://u@h/d?password=abc&RestOfSecret99=1",
        "postgres://u@h/d?RestOfSecret99=1&RestOfSecret99=2",
        "mysql://u@h/d?password=abc&RestOfSecret99",
    ] {
        let told = Url::parse(text).unwrap_err().to_string();
        assert!(!told.to_lowercase().contains("restofsecret99"), "{told}");
        assert!(told.contains("parameter"), "{told}");
    }
    let told = Url::parse("postgres://u@h/d?keepalives=1")
        .unwrap_err()
        .to_string();
    assert!(told.contains("keepalives"), "{told}");
}

#[test]
fn a_sign_in_a_password_is_refused_and_never_makes_a_host_of_the_rest() {
    for text in [
        "postgres://ro:p@ss#1@db/shop",
        "postgres://ro:p@ss@db/shop",
        "mysql://ro:hun/ter@db/shop",
        "postgres://ro:hunter#2@db/shop",
        "postgres://ro:hun?ter@db/shop",
        "redis://:hunter@2#x/y%z@db/0",
    ] {
        let error = Url::parse(text).unwrap_err().to_string();
        assert!(error.contains("@ is written %40"), "{text}: {error}");
        for part in ["ss#", "ss@", "hun", "ter@"] {
            assert!(!error.replace("password", "").contains(part), "{text}: {error}");
        }
    }
    Url::parse("postgres://ro:p%40ss%231@db/shop").unwrap();
}

#[test]
fn a_host_may_be_named_by_a_parameter_alone() {
    for text in [
        "postgres://u:p@/shop?host=/run/postgresql",
        "postgres://u:p@/shop?connect_timeout=5&host=/run/postgresql",
        "mysql://u:p@/shop?socket=/run/mysqld/mysqld.sock",
    ] {
        let url = Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(format!("{url:?}").contains("Socket(\"/run/"), "{url:?}");
    }
    assert!(Url::parse("postgres://u:p@/shop").is_err());
    // Such a pair of signs in a parameter is a part of its value.
    let url = Url::parse("postgres://h/shop?host=/run/postgresql&password=a@/b").unwrap();
    assert!(format!("{url:?}").contains("Socket(\"/run/"), "{url:?}");
}
