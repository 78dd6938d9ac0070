//! Which last labels make a host name. It is a list made for prose, not the registry's: rare domains that are everyday words are left out.

/// Domains that count in every spelling: nobody starts a sentence with them.
const PLAIN: &[&str] = &[
    "com",
    "net",
    "org",
    "edu",
    "gov",
    "mil",
    "io",
    "dev",
    "app",
    "cloud",
    "internal",
    "lan",
    "corp",
    "onion",
    "i2p",
    "localhost",
    "invalid",
    "arpa",
    "intranet",
    "localdomain",
    "svc",
];

/// Other domains of more than two letters: generic ones in wide use, and names that only exist inside a network or in documentation.
const GENERIC: &[&str] = &[
    "academy",
    "agency",
    "asia",
    "biz",
    "blog",
    "business",
    "buzz",
    "capital",
    "care",
    "cat",
    "center",
    "chat",
    "city",
    "click",
    "club",
    "codes",
    "community",
    "company",
    "computer",
    "consulting",
    "coop",
    "data",
    "design",
    "digital",
    "directory",
    "domains",
    "education",
    "email",
    "energy",
    "engineering",
    "events",
    "exchange",
    "expert",
    "finance",
    "foundation",
    "fun",
    "fund",
    "games",
    "global",
    "group",
    "guide",
    "health",
    "host",
    "hosting",
    "icu",
    "info",
    "international",
    "jobs",
    "law",
    "life",
    "link",
    "live",
    "llc",
    "ltd",
    "management",
    "market",
    "marketing",
    "media",
    "mobi",
    "museum",
    "network",
    "news",
    "ngo",
    "ninja",
    "one",
    "online",
    "page",
    "partners",
    "photos",
    "press",
    "pro",
    "pub",
    "review",
    "rocks",
    "run",
    "school",
    "science",
    "security",
    "services",
    "shop",
    "site",
    "social",
    "software",
    "solutions",
    "space",
    "store",
    "stream",
    "studio",
    "support",
    "systems",
    "tech",
    "technology",
    "tools",
    "top",
    "travel",
    "university",
    "ventures",
    "vip",
    "website",
    "wiki",
    "work",
    "works",
    "world",
    "wtf",
    "xyz",
    "zone",
    "mov",
    "zip",
    // cities and languages
    "amsterdam",
    "bayern",
    "berlin",
    "brussels",
    "hamburg",
    "koeln",
    "london",
    "nyc",
    "paris",
    "swiss",
    "tokyo",
    "wien",
    // inside a network, and reserved for documentation and tests
    "local",
    "home",
    "private",
    "prod",
    "staging",
    "cluster",
    "test",
    "example",
    // in Cyrillic and Greek letters
    "рф",
    "рус",
    "укр",
    "бел",
    "срб",
    "ею",
    "мкд",
    "ευ",
    "ελ",
];

/// Country codes, with `eu`, `su` and `uk`.
const COUNTRIES: &str = "ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo bq br bs bt bw by bz \
     ca cc cd cf cg ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk fm fo fr \
     ga gd ge gf gg gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu id ie il im in iq ir is it je jm jo jp \
     ke kg kh ki km kn kp kr kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc md me mg mh mk ml mm mn mo mp mq mr ms mt mu mv mw mx my mz \
     na nc ne nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl pm pn pr ps pt pw py qa re ro rs ru rw \
     sa sb sc sd se sg sh si sk sl sm sn so sr ss st su sv sx sy sz tc td tf tg th tj tk tl tm tn to tr tt tv tw tz \
     ua ug uk us uy uz va vc ve vg vi vn vu wf ws ye yt za zm zw";

/// Top-level domains that are common file extensions too.
const FILE_EXTENSIONS: &[&str] = &[
    "cc", "md", "mk", "ml", "mov", "pl", "pm", "ps", "py", "rs", "sh", "tf", "zip",
];

/// Whether `label` (in lower case) is a domain under which hosts are named.
pub(super) fn is_domain(label: &str) -> bool {
    is_country(label) || is_plain_host_domain(label) || GENERIC.contains(&label) || label.starts_with("xn--")
}

/// Whether `label` (in lower case) is a country code.
pub(super) fn is_country(label: &str) -> bool {
    label.len() == 2 && COUNTRIES.split_ascii_whitespace().any(|code| code == label)
}

/// Whether `label` (in lower case) is a domain with which no sentence starts.
pub(super) fn is_plain_host_domain(label: &str) -> bool {
    PLAIN.contains(&label)
}

/// Whether `label` (in lower case) is a file extension as well as a domain.
pub(super) fn is_file_extension(label: &str) -> bool {
    FILE_EXTENSIONS.contains(&label)
}
