//! Tools of others: what is read, and what is told of mistakes.

use super::*;
use sotto_core::tool::{Effects, Execution, Rights};

#[test]
fn a_server_has_only_what_is_said_of_it() {
    let file = "[[tools.mcp]]\nname = 'files'\ncommand = ['serve', '--all']\nenv = { MODE = 'x', KEY = '${KEY}' }\n\
                pass_env = ['PATH', 'NOT_SET']\ndirectory = 'data'\n";
    let config = good(file, &[("KEY", "s3cret-key"), ("PATH", "/bin"), ("OTHER", "o")]);
    let [server] = &config.tools.mcp[..] else { panic!("one server") };
    let McpReach::Command { command, env, directory } = &server.reach else { panic!("a command") };
    assert_eq!(command.iter().map(Text::as_str).collect::<Vec<_>>(), ["serve", "--all"]);
    let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(env, [("KEY", "s3cret-key"), ("MODE", "x"), ("PATH", "/bin")]);
    assert!(
        directory.as_ref().is_some_and(|path| path.is_absolute() && path.ends_with("data")),
        "{directory:?}"
    );
    assert!(config.tools.lock.is_absolute() && config.tools.lock.ends_with("tools.lock"), "beside the file");
    assert!(!server.trust_first_use && !server.shared && server.only.is_none());
    assert_eq!(server.terms.effects, Effects::ALL, "what nobody declared has all effects");
    assert_eq!((server.terms.confirm, &server.terms.rights), (false, &Rights::Everyone));
    assert!(config.secrets().any(|secret| secret == "s3cret-key"));
    assert!(!format!("{config:?}").contains("s3cret"), "never shown");
}

#[test]
fn terms_are_read_and_those_of_all_tools_hold_where_nothing_is_said() {
    let file = "[tools]\nmax_result_bytes = 1000\n[[tools.http]]\nname = 'a'\ndescription = 'A.'\nurl = 'https://a.example/?k=1'\n\
                effects = ['sends_out']\nconfirm = true\ntimeout = 2.5\nrepeatable = true\n\
                rights = { identities = ['alice'], attributes = { role = 'admin' } }\n\
                headers = { Authorization = 'Bearer abcdefgh' }\n\
                [[tools.http]]\nname = 'b'\ndescription = 'B.'\nurl = 'https://b.example/'\nmax_result_bytes = 500\n\
                method = 'GET'\nparameters = '{\"type\": \"object\", \"required\": [\"x\"]}'\n";
    let config = good(file, &[]);
    let [a, b] = &config.tools.http[..] else { panic!("two tools") };
    assert_eq!(a.terms.effects, Effects { sends_out: true, ..Effects::NONE });
    assert_eq!((a.terms.confirm, a.terms.repeatable), (true, true));
    assert_eq!(a.terms.timeout, Some(Duration::from_millis(2_500)));
    assert_eq!((a.terms.max_result_bytes, b.terms.max_result_bytes), (1_000, 500));
    let rights = Rights::Only {
        identities: vec!["alice".to_owned()],
        attributes: vec![("role".to_owned(), "admin".to_owned())],
    };
    assert_eq!(a.terms.rights, rights);
    assert_eq!((a.method, b.method), ("POST", "GET"));
    assert_eq!(b.parameters["required"][0], "x");
    assert!(config.secrets().any(|secret| secret == "abcdefgh"), "a key in a header is a secret");
}

#[test]
fn single_tools_of_a_server_may_have_terms_of_their_own() {
    let file = "[[tools.mcp]]\nname = 'files'\ncommand = ['serve']\neffects = ['reads_private']\ntimeout = 5\n\
                [tools.mcp.tools]\nread = { repeatable = true, execution = 'either' }\n\
                write = { effects = ['changes'], confirm = true, timeout = 60, max_result_bytes = 500, \
                rights = { identities = ['alice'] } }\n";
    let config = good(file, &[]);
    let [server] = &config.tools.mcp[..] else { panic!("one server") };
    let (all, read, write) = (&server.terms, &server.own_terms["read"], &server.own_terms["write"]);
    assert_eq!(*read, ToolTerms { repeatable: true, execution: Execution::Either, ..all.clone() });
    let rights = Rights::Only { identities: vec!["alice".to_owned()], attributes: Vec::new() };
    let expected = ToolTerms {
        effects: Effects { changes: true, ..Effects::NONE },
        confirm: true,
        rights,
        timeout: Some(Duration::from_secs(60)),
        max_result_bytes: 500,
        ..all.clone()
    };
    assert_eq!(*write, expected);
    assert_eq!((all.timeout, all.execution), (Some(Duration::from_secs(5)), Execution::Server));
}

#[test]
fn tools_are_declared_for_clients_and_for_either() {
    let file = "[[tools.client]]\nname = 'a'\ndescription = 'A.'\neffects = []\n\
                [[tools.client]]\nname = 'b'\ndescription = 'B.'\nrpc = true\ntimeout = 3\nconfirm = true\n\
                parameters = { type = 'object', required = ['x'] }\n\
                [[tools.http]]\nname = 'c'\ndescription = 'C.'\nurl = 'https://c.example/'\nexecution = 'either'\n";
    let config = good(file, &[]);
    let [a, b] = &config.tools.client[..] else { panic!("two tools") };
    assert_eq!((a.terms.execution, a.terms.effects), (Execution::Client, Effects::NONE));
    assert_eq!((b.terms.execution, b.terms.effects), (Execution::Rpc, Effects::ALL));
    assert_eq!((b.terms.timeout, b.terms.confirm), (Some(Duration::from_secs(3)), true));
    assert_eq!(
        (a.parameters["type"].as_str(), b.parameters["required"][0].as_str()),
        (Some("object"), Some("x"))
    );
    assert_eq!(config.tools.http[0].terms.execution, Execution::Either);
}

#[test]
fn mistakes_are_told_with_their_place_and_remedy() {
    let cases = [
        (
            "[[tools.mcp]]\nname = 'a'\n",
            "sotto.toml:1: tools.mcp number 1 needs a command or a url; add one of them",
        ),
        (
            "[[tools.mcp]]\nname = 'a'\ncommand = ['x']\nurl = 'https://a.example/'\n",
            "sotto.toml:1: tools.mcp number 1 has a command and a url, of which it can have one; leave the other out",
        ),
        (
            "[[tools.mcp]]\nname = 'a'\ncommand = []\n",
            "sotto.toml:1: tools.mcp number 1 has a command without a program; write it first",
        ),
        (
            "[[tools.mcp]]\nname = 'a'\nurl = 'https://a.example/'\nenv = { A = '1' }\n",
            "sotto.toml:1: tools.mcp number 1 has env, pass_env or directory, which only a command can have; leave them out",
        ),
        (
            "[[tools.mcp]]\nname = 'a'\ncommand = ['x']\nonly = ['read', 'write']\ntools = { wirte = { confirm = true } }\n",
            "sotto.toml:1: tools.mcp number 1 has terms of the tool \"wirte\", which is not in only; correct its name or add it \
             there",
        ),
        (
            "[[tools.mcp]]\nname = 'a__b'\ncommand = ['x']\n",
            "sotto.toml:2: tools.mcp number 1.name is \"a__b\" but must be a name that neither begins nor ends with _ nor has \
             two of them in a row",
        ),
        (
            "[[tools.mcp]]\nname = 'a'\ncommand = ['x']\n[[tools.http]]\nname = 'a'\ndescription = 'A'\nurl = 'https://a.example/'\n",
            "sotto.toml:4: tools.http number 1 is called \"a\" as another tool or server is; give it another name",
        ),
        (
            "[[tools.http]]\nname = 'time'\ndescription = 'A'\nurl = 'https://a.example/'\n",
            "sotto.toml:1: tools.http number 1 is called \"time\" as another tool or server is; give it another name",
        ),
        (
            "[[tools.http]]\nname = 'a'\nurl = 'https://a.example/'\n",
            "sotto.toml:1: tools.http number 1 has no description; add it",
        ),
        (
            "[[tools.http]]\nname = 'a'\ndescription = 'A'\nurl = 'https://user:pass@a.example/'\n",
            "sotto.toml:4: tools.http number 1.url must be a URL that begins with http:// or https://, without user, \
             password and #; keys belong in headers",
        ),
        (
            "[[tools.http]]\nname = 'a'\ndescription = 'A'\nurl = 'https://a.example/'\nparameters = { type = 'string' }\n",
            "sotto.toml:5: tools.http number 1.parameters must be JSON Schema of an object, as { type = \"object\", \
             properties = { city = { type = \"string\" } } }",
        ),
        (
            "[[tools.http]]\nname = 'a'\ndescription = 'A'\nurl = 'https://a.example/'\neffects = ['nothing']\n",
            "sotto.toml:5: tools.http number 1.effects is a list but must be a list in which each is one of \
             \"reads_private\", \"sends_out\", \"changes\", \"untrusted_output\"",
        ),
        (
            "[[tools.http]]\nname = 'a'\ndescription = 'A'\nurl = 'https://a.example/'\nrights = { users = ['x'] }\n",
            "sotto.toml:5: tools.http number 1.rights is a table but must be a table with identities, attributes or both, \
             as { identities = [\"alice\"], attributes = { role = \"admin\" } }",
        ),
        (
            "[[tools.http]]\nname = 'a'\ndescription = 'A'\nurl = 'https://a.example/'\nexecution = 'client'\n",
            "sotto.toml:5: tools.http number 1.execution is \"client\" but must be one of \"server\", \"either\"",
        ),
        (
            "[[tools.mcp]]\nname = 'a'\ncommand = ['x']\ntools = { read = { confrim = true } }\n",
            "sotto.toml:4: tools.mcp number 1.tools is a table but must be a table of tools whose terms are of effects, \
             confirm, rights, timeout, max_result_bytes, repeatable or execution",
        ),
        ("[[tools.client]]\nname = 'a'\n", "sotto.toml:1: tools.client number 1 has no description; add it"),
        (
            "[[tools.client]]\nname = 'a'\ndescription = 'A'\nurl = 'https://a.example/'\n",
            "sotto.toml:4: tools.client number 1.url is unknown; the keys there are name, description, rpc, parameters, \
             effects, confirm, rights, timeout, repeatable",
        ),
        (
            "[tools]\nallow_hosts = ['http://localhost:80']\n",
            "sotto.toml:2: tools.allow_hosts is a list but must be a list in which each is the name or the address of a \
             host, as localhost or 10.0.0.5",
        ),
        (
            "[[tools.http]]\nname = 'a'\ndescription = 'A'\nurl = 'https://a.example/'\nconfrim = true\n",
            "sotto.toml:5: tools.http number 1.confrim is unknown; did you mean confirm?",
        ),
    ];
    for (file, problem) in cases {
        assert_eq!(problems(file, &[]), [problem], "{file}");
    }
    for host in ["localhost", "10.0.0.5", "::1", "[fd00::1]", "tools.internal"] {
        good(&format!("[tools]\nallow_hosts = ['{host}']\n"), &[]);
    }
}
