//! Verdicts of the screen over ordinary and over leaking replies, and laws that hold for any reply.

use proptest::prelude::*;

use super::{DenyWords, DenyWordsError, INFRASTRUCTURE_WORDS, RefusalKind, screen};

fn kind(reply: &str) -> Option<&'static str> {
    kind_with(reply, &DenyWords::default())
}

fn kind_with(reply: &str, words: &DenyWords) -> Option<&'static str> {
    screen(reply, words).err().map(|refusal| match refusal.kind() {
        RefusalKind::Character { .. } => "character",
        RefusalKind::Credential(_) => "credential",
        RefusalKind::Url => "url",
        RefusalKind::IpAddress => "ip",
        RefusalKind::HostName => "host",
        RefusalKind::MailAddress => "mail",
        RefusalKind::InfrastructureWord(_) => "word",
        RefusalKind::DeploymentName => "deployment",
    })
}

fn all_are(expected: &str, replies: &[&str]) {
    for reply in replies {
        assert_eq!(kind(reply), Some(expected), "{reply:?}");
    }
}

fn all_pass(replies: &[&str]) {
    for reply in replies {
        assert_eq!(screen(reply, &DenyWords::default()), Ok(()), "{reply:?}");
    }
}

#[test]
fn ordinary_english_replies_pass() {
    all_pass(&[
        "Thanks, noon works.",
        "Hi Ada,\n\nthank you for the quick answer. I'll send the contract by Friday, 3.5.2024, at 10.30 a.m.\n\nBest regards,\nGrace",
        "We can do €1.250,00 (net) or $1,499.99 incl. VAT.",
        "The budget is 1.000.000.000 rupiah, not 1.250.000.000.",
        "See section 3.2.1 of version 1.2.3, i.e. the part on refunds, e.g. for late delivery.",
        "Version 120.0.6099.109 of the browser is fine.",
        "I met Dr. Smith of the U.S. office at 5 p.m.; he has an M.Sc. and a Ph.D.",
        "I'm done.Thanks for waiting.So let's talk on Monday.In short: yes.",
        "Well... maybe. Wait...what?",
        "Please open report.pdf, main.rs, notes.md, setup.py and backup.zip.",
        "It is written in Node.js and ASP.NET, or plain .NET.",
        "Regarding the password: I have reset it for you.",
        "The password is wrong; the password is at least 12 characters long.",
        "Your token of appreciation arrived. The secret: practice and more practice.",
        "Call me on +49 30 1234567 or 555.123.4567, or 01.23.45.67.89 in Paris.",
        "Our IBAN is DE89 3704 0044 0532 0130 00, BIC COBADEFFXXX.",
        "The order number is 550e8400-e29b-41d4-a716-446655440000.",
        "Between 10:30:45 and 12:00 I am in a call; ratio 1:2:3.",
        "Ping @ada when the std::vector and the a::b question is settled.",
        "Either/or is fine, and/or both. 50% off, 3 for 2!",
        "Yes, I can use the Mac app. Our team works on one page of the store.",
        "1) first\n2) second\n\t- indented\n3) \"quoted\" & <angled> text; #5 ~ 10^3 | x_y = {z}",
        "Look at section 1.2.3.4.5 of the annex.",
        "No.5 is in stock, 5.in the drawer; see p.12 ff.",
        "It is a state-of-the-art-but-not-really-something-for-everyone-in-2024 idea.",
        "Donaudampfschifffahrtsgesellschaftskapitaen2024 was the code word of the party.",
        "Reference: Meeting-Notes-2024-Q3-Final-Version-Draft",
        "It is in src/components/UserProfileCard2/IndexPage, says the README.",
        "The key takeaways: be on time, bring ID no. 12345678 and a pin for the badge.",
        "Great news 🎉 see you there 👍🏽 (and bring the kids 👶)",
        "The Ohm symbol Ω, 20 °C, ½ cup, x² and № 5 are fine; so are “quotes”, dashes – and ellipses…",
        "kubernetes is a nice word, and so is Docker; our admin knows both.",
        "Mr.Smith & Co.KG will pay; J.R.R.Tolkien wrote it; it costs 3.50.",
        "I would say that the 2nd, 3rd and 4th item are o.k.",
        "Dear all,\n> On Monday you wrote:\n> can we meet?\nYes.\n-- \nGrace",
    ]);
}

#[test]
fn ordinary_replies_in_other_languages_pass() {
    all_pass(&[
        "Guten Tag Frau Müller, z.B. am 3.5. um 10.30 Uhr, d.h. i.d.R. vormittags. Mit freundlichen Grüßen, Jürgen Groß",
        "Vielen Dank für die Rechnung über 1.234,56 EUR. Passwort: siehe Brief von gestern.",
        "Bonjour, c'est parfait pour jeudi, p.ex. à 14 h 30. À bientôt, Hélène — c.-à-d. à l'heure prévue.",
        "Buongiorno, va bene p.es. martedì; S.p.A. e S.r.l. sono d'accordo. Cordiali saluti",
        "Hola, ¿qué tal? Todo bien: EE.UU. y Sr. Núñez de acuerdo. ¡Gracias!",
        "Olá, obrigado pela atenção; V.Exa. receberá a proposta amanhã, às 9 h.",
        "Dzień dobry, m.in. faktura i umowa sp. z o.o. są gotowe. Pozdrawiam, Łukasz",
        "Dobrý den, firma s.r.o. to zařídí např. zítra. Děkuji",
        "Hej, t.ex. bl.a. m.fl. fungerar bra. Vänliga hälsningar, Åsa",
        "Здравствуйте! Спасибо, т.е. всё в порядке и т.д. До встречи в четверг.",
        "Γεια σας, ευχαριστώ πολύ για την απάντηση. Καλή σας ημέρα.",
        "您好,谢谢您的来信。星期五下午三点可以。再见!",
        "お世話になっております。金曜日の15時で問題ございません。よろしくお願いいたします。",
        "안녕하세요, 금요일 오후 3시가 좋습니다. 감사합니다.",
        "مرحبا، شكرا على رسالتك. الموعد مناسب يوم الجمعة.",
        "שלום, תודה רבה על ההודעה. יום חמישי מתאים.",
        "नमस्ते, आपके संदेश के लिए धन्यवाद। शुक्रवार ठीक है।",
        "สวัสดีครับ ขอบคุณสำหรับอีเมล วันศุกร์สะดวกครับ",
        "Xin chào, cảm ơn bạn. Thứ Sáu lúc 15 giờ được nhé.",
        "Merhaba, İstanbul'daki toplantı için teşekkürler. Ltd.Şti. ile görüştük.",
        "Hyvää päivää, esim. torstai sopii. Terveisin Äijä",
    ]);
}

// spec: DRF-038
#[test]
fn all_printable_ascii_in_one_line_passes() {
    all_pass(&[&(' '..='~').collect::<String>()]);
}

// spec: DRF-015
#[test]
fn a_character_that_the_card_could_not_show_is_refused() {
    all_are(
        "character",
        &[
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{2066}b\u{2069}",
            "zero\u{200d}joiner",
            "heart \u{2764}\u{fe0f}",
            "soft\u{ad}hyphen",
            "\u{feff}start",
            "tag \u{e0041}\u{e0042}",
            "filler \u{3164}",
            "private \u{e000}",
            "unassigned \u{378}",
            "noncharacter \u{ffff}",
            "bell \u{7}",
            "escape \u{1b}[31m",
            "one\r\ntwo",
            "next line \u{85}",
            "separator \u{2028}",
            "ogham blank\u{1680}here",
            "braille blank \u{2800}",
            "delete \u{7f}",
        ],
    );
    let refusal = screen("ab\u{202e}", &DenyWords::default()).unwrap_err();
    assert_eq!(
        (refusal.at(), refusal.kind()),
        (
            3,
            RefusalKind::Character {
                code: 0x202e,
                what: "a text-direction control"
            }
        )
    );
}

// spec: DRF-016 DRF-022
#[test]
fn an_ip_address_is_refused_in_every_spelling_that_folds_to_one() {
    all_are(
        "ip",
        &[
            "10.0.0.5",
            "Try 10.0.0.5:8080 please",
            "it is at 192.168.1.254.",
            "wait...10.0.0.5...",
            "(172.16.0.1)",
            "x10.0.0.5y",
            "１０．０．０．５",
            "10․0․0․5",
            "𝟏𝟎.𝟎.𝟎.𝟓",
            "::1",
            "see fe80::1%eth0",
            "[2001:db8::1]:443",
            "IPv6:2001:db8:0:0:0:0:0:1",
            "::ffff:10.0.0.5",
            "2001:DB8::A.",
        ],
    );
}

// spec: DRF-017
#[test]
fn a_host_name_is_refused() {
    all_are(
        "host",
        &[
            "build1.example.internal",
            "see db.corp for it",
            "Look at Example.COM.",
            "example.com, please",
            "www.example.co.uk",
            "git.example.rs",
            "main.rs/src",
            "allegro.pl:8443",
            "t.me/somebody",
            "printer.local",
            "nas.home",
            "wiki.intern.lan",
            "bücher.example",
            "пример.рф",
            "xn--bcher-kva.example",
            "a.xn--p1ai",
            "ｅｘａｍｐｌｅ．ｃｏｍ",
            "请看example.com网站",
            "example。com",
            "_example.com_",
            "db-1.prod",
            "x.com",
            "abc.onion",
        ],
    );
    all_are(
        "mail",
        &[
            "write to ada@example.test",
            "ada@build1.example.internal",
            "ada＠example.com",
            "root@nas.fritzbox",
        ],
    );
    all_are(
        "url",
        &[
            "http://x",
            "see https://example.com/a",
            "ftp://10.0.0.5",
            "custom+scheme://x",
        ],
    );
}

// spec: DRF-018
#[test]
fn a_credential_shaped_string_is_refused() {
    all_are(
        "credential",
        &[
            "mpl_0123456789abcdef",
            "use mst_abcdefgh",
            "mag_abcdef.",
            "mmh_123456",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "key_ghs_abcdef12",
            "github_pat_11ABCDEFG",
            "glpat-abcdef12345",
            "sk-proj-abc123def456ghi",
            "sk-ant-api03-abcdefgh",
            "sk_live_4242424242",
            "xoxb-1234-5678",
            "AKIAIOSFODNN7EXAMPLE",
            "ASIAIOSFODNN7EXAMPLE",
            "AIzaSyA1234567890abcdefghijklmnopqrstuv",
            "Authorization: Bearer abc123def456ghi",
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "-----BEGIN CERTIFICATE-----",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "password: x",
            "Password = hunter2",
            "password: swordfish, thanks",
            "The password is hunter2!",
            "Passwort: geheim",
            "mot de passe : soleil",
            "密码：abc",
            "DB_PASSWORD=secret",
            "token=abc",
            "api_key: abcdefgh1",
            "api  key = x",
            "PIN: 1234",
            "client_secret=\"v\"",
            "**password**: swordfish",
            "d41d8cd98f00b204e9800998ecf8427e",
            "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "q0Zk-3vB_x9TfLm-2RwYp_7HsNc4KdQe8UgJ",
            "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
            "ｇｈｐ＿abcdefgh",
        ],
    );
}

// spec: DRF-019
#[test]
fn every_infrastructure_word_is_refused_in_any_case() {
    for word in INFRASTRUCTURE_WORDS {
        for reply in [
            format!("about {word}, yes"),
            format!("({})", word.to_uppercase()),
            format!("{word}\n"),
        ] {
            assert!(kind(&reply).is_some(), "{reply:?}");
        }
    }
    all_are(
        "word",
        &[
            "use kubectl",
            "the root\n  password of it",
            "ssh2",
            "ssh-key",
            "it runs on LocalHost",
        ],
    );
    all_pass(&[
        "the pseudorandom sshd2x".replace("sshd2x", "number").as_str(),
        "crossharbour",
        "etcdx",
        "the root of the problem: a password",
    ]);
}

// spec: DRF-020
#[test]
fn the_deployments_own_names_are_refused_in_any_case_and_only_as_whole_words() {
    let words = DenyWords::parse(" Bluebird , acme prod,Größe7,,東京, .corpx ,ΣΊΣΥΦΟΣ").unwrap();
    assert_eq!(words.len(), 6);
    let refused = [
        "ask bluebird",
        "BLUEBIRD!",
        "bluebird7 is down",
        "blue bluebird-2",
        "my_bluebird_box",
        "ｂｌｕｅｂｉｒｄ",
        "Acme\n Prod",
        "GRÖSSE7 größe7",
        "我在東京办公室",
        "x.corpx",
        "σίσυφος",
        "我们的bluebird服务器",
    ];
    for reply in refused {
        assert_eq!(kind_with(reply, &words), Some("deployment"), "{reply:?}");
    }
    for reply in [
        "bluebirds sing",
        "a bluebirdhouse",
        "acme",
        "prod acme",
        "acmeprod",
    ] {
        assert_eq!(kind_with(reply, &words), None, "{reply:?}");
    }
}

#[test]
fn a_list_of_names_that_cannot_be_compared_is_refused_without_repeating_it() {
    assert_eq!(DenyWords::parse("good, --"), Err(DenyWordsError::NoLetter(2)));
    assert_eq!(
        DenyWords::parse(&"x".repeat(101)),
        Err(DenyWordsError::TooLong(1))
    );
    assert_eq!(
        DenyWords::parse(&"x,".repeat(501)),
        Err(DenyWordsError::TooMany(501))
    );
    assert!(DenyWords::parse(" , ,").unwrap().is_empty());
}

// spec: DRF-021
#[test]
fn a_refusal_says_why_and_where_and_repeats_no_secret() {
    let words = DenyWords::parse("bluebird").unwrap();
    let table = [
        ("ok, mpl_0123456789abcdef", "character 5", "a connector token"),
        ("the password is hunter2", "character 5", "a secret given by name"),
        ("at 10.0.0.5", "character 4", "an IP address"),
        ("éé build1.example.internal", "character 4", "a host name"),
        ("ask ada@example.test", "character 9", "an e-mail address"),
        ("go to https://x.example", "character 7", "a URL"),
        ("in bluebird", "character 4", "deployment"),
        ("use kubectl", "character 5", "\"kubectl\""),
        ("a\u{200b}", "character 2", "U+200B"),
    ];
    for (reply, place, why) in table {
        let sentence = screen(reply, &words).unwrap_err().to_string();
        assert!(sentence.contains(place) && sentence.contains(why), "{sentence}");
        for secret in [
            "mpl_0",
            "hunter2",
            "10.0",
            "build1",
            "ada@",
            "x.example",
            "bluebird",
        ] {
            assert!(!sentence.contains(secret), "{sentence}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    // spec: DRF-015
    #[test]
    fn what_passes_can_be_shown(reply in "(?s).{0,60}") {
        if screen(&reply, &DenyWords::default()).is_ok() {
            let folded = crate::text::fold(&reply);
            prop_assert!(folded.chars().all(|c| c == '\n' || c == '\t' || crate::text::unseen(c).is_none()));
        }
    }

    // spec: DRF-016
    #[test]
    fn no_address_passes_wherever_it_stands(before in "[a-z ,(]{0,12}", address in any::<std::net::Ipv4Addr>(), after in "[ ,)a-z]{0,12}") {
        let reply = format!("{before}{address}{after}");
        prop_assert!(screen(&reply, &DenyWords::default()).is_err(), "{}", reply);
    }

    // spec: DRF-016
    #[test]
    fn no_long_address_passes(address in any::<std::net::Ipv6Addr>()) {
        let reply = format!("at {address}, I think");
        prop_assert!(screen(&reply, &DenyWords::default()).is_err(), "{}", reply);
    }

    // spec: DRF-018
    #[test]
    fn no_minted_token_passes(kind in 0_usize..4, bytes in any::<[u8; 32]>()) {
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let token = format!("{}{hex}", crate::secret::TokenKind::ALL[kind].prefix());
        prop_assert!(screen(&token, &DenyWords::default()).is_err());
    }

    // spec: DRF-020
    #[test]
    fn a_name_is_found_wherever_it_stands(before in "([a-z]{1,5} ){0,4}", name in "[a-z]{3,9}", after in "( [a-z]{1,5}){0,4}") {
        let words = DenyWords::parse(&name).unwrap();
        let reply = format!("{before}{}{after}", name.to_uppercase());
        prop_assert!(screen(&reply, &words).is_err());
    }
}
