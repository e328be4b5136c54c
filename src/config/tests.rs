//! Configuration as its users meet it: files and variables in, values or messages out.

mod hooks;
mod secrets;
mod the_store;
mod tools;

use super::*;
use std::collections::BTreeSet;
use std::time::Duration;

const SHIPPED: &str = include_str!("../../config/sotto.toml");

/// Loads a file of this content, called `sotto.toml`, with these variables. Its path is cut out of messages.
fn load(file: &str, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("sotto.toml"), file).expect("a file");
    load_in(directory.path(), None, variables)
}

fn load_in(directory: &Path, file: Option<&Path>, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let environment = variables.iter().copied().collect();
    Config::load_from(file, directory, &environment).map_err(|error| {
        let prefix = format!("{}/", directory.display());
        error.problems().iter().map(|problem| problem.replace(&prefix, "")).collect()
    })
}

fn good(file: &str, variables: &[(&str, &str)]) -> Config {
    load(file, variables).expect("a good configuration")
}

fn problems(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    load(file, variables).expect_err("a bad configuration")
}

/// The only problem, which must begin and end like this.
#[track_caller]
fn assert_problem(file: &str, variables: &[(&str, &str)], begins: &str, ends: &str) {
    let problems = problems(file, variables);
    assert!(
        matches!(&problems[..], [problem] if problem.starts_with(begins) && problem.ends_with(ends)),
        "{problems:#?}"
    );
}

/// The shipped file with the `#` taken away before each key.
fn shipped_with_all_keys() -> String {
    let is_key = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase());
    let lines =
        SHIPPED.lines().map(|line| line.strip_prefix('#').filter(|rest| is_key(rest)).unwrap_or(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

mod the_shipped_file {
    use super::*;

    #[test]
    fn says_the_defaults() {
        assert_eq!(good(SHIPPED, &[]), Config::default());
        assert_eq!(good(&shipped_with_all_keys(), &[]), Config::default());
        // What an endpoint has by default shows only where there is one.
        let url = [("SOTTO_MODEL_URL", "http://localhost:8000/v1")];
        assert_eq!(good(&shipped_with_all_keys(), &url), good("", &url));
    }

    #[test]
    fn has_every_key_and_no_other() {
        let nothing = Environment::default();
        let mut reader = Reader::new(None, &nothing);
        Config::read(&mut reader);
        let known: BTreeSet<_> =
            reader.variables().filter(|name| name.matches('_').count() > 1).map(str::to_owned).collect();
        let file: toml::Table = shipped_with_all_keys().parse().expect("TOML");
        let written: BTreeSet<_> = file
            .iter()
            .flat_map(|(section, keys)| {
                let keys = keys.as_table().expect("a section").keys();
                keys.map(move |key| format!("SOTTO_{section}_{key}").to_uppercase())
            })
            .chain(
                [
                    "LIVEKIT_API_KEY",
                    "LIVEKIT_API_SECRET",
                    "SOTTO_MODEL_FALLBACK",
                    "SOTTO_TOOLS_MCP",
                    "SOTTO_TOOLS_HTTP",
                    "SOTTO_TOOLS_CLIENT",
                    "SOTTO_HOOKS_BEFORE_MODEL",
                    "SOTTO_HOOKS_BEFORE_TOOL",
                    "SOTTO_HOOKS_BEFORE_SAY",
                ]
                .map(str::to_owned),
            )
            .collect();
        assert_eq!(known, written);
        assert!(known.len() > 60, "{}", known.len());
    }

    #[test]
    fn has_examples_that_work() {
        let example: String = SHIPPED
            .lines()
            .filter_map(|line| line.strip_prefix("#     "))
            .flat_map(|line| [line, "\n"])
            .collect();
        let config = good(
            &format!("[model]\nurl = 'http://localhost:8000/v1'\nkey = 'main'\n{example}"),
            &[
                ("FALLBACK_KEY", "fallback"),
                ("WIKI_TOKEN", "of the wiki"),
                ("WEATHER_KEY", "of the weather"),
                ("HOOK_SECRET", "of-all-the-hooks"),
            ],
        );
        let keys: Vec<_> =
            config.model.endpoints.iter().map(|e| e.key.as_ref().map(Secret::expose)).collect();
        assert_eq!(keys, [Some("main"), Some("fallback")]);
        assert_eq!(config.model.endpoints[1].name.as_str(), "qwen3-32b");
        let Tools { mcp, http, client, .. } = &config.tools;
        assert_eq!((mcp.len(), http.len(), client.len()), (2, 1, 1));
        let hooks = [&config.hooks.before_model, &config.hooks.before_tool, &config.hooks.before_say];
        assert!(hooks.iter().all(|hook| hook.is_some()));
    }
}

mod layers {
    use super::*;

    #[test]
    fn the_environment_goes_before_the_file_and_the_file_before_the_defaults() {
        let file = "[model]\nretries = 5\nchunk_timeout = 1.5\n";
        let config = good(file, &[("SOTTO_MODEL_RETRIES", "7")]);
        assert_eq!(config.model.retries, 7);
        assert_eq!(config.model.chunk_timeout, Duration::from_millis(1_500));
        assert_eq!(config.model.total_timeout, Duration::from_secs(600));
    }

    #[test]
    fn a_blank_variable_or_string_counts_as_not_given() {
        let config = good("[model]\nurl = ''\nretries = 5\n", &[("SOTTO_MODEL_RETRIES", " ")]);
        assert_eq!(config.model.retries, 5);
        assert!(config.model.endpoints.is_empty());
    }

    #[test]
    fn livekit_has_its_own_names_and_ours_go_before_them() {
        let variables =
            [("LIVEKIT_URL", "wss://one"), ("LIVEKIT_API_KEY", "key"), ("LIVEKIT_API_SECRET", "s3cret\n")];
        let livekit = good("[livekit]\nurl = 'wss://zero'\n", &variables).livekit;
        assert_eq!(livekit.url.as_str(), "wss://one");
        let (key, secret) = livekit.credentials().expect("both are set");
        assert_eq!((key, secret.expose()), ("key", "s3cret"));
        let both = good("", &[("LIVEKIT_URL", "wss://one"), ("SOTTO_LIVEKIT_URL", "wss://two")]);
        assert_eq!(both.livekit.url.as_str(), "wss://two");
    }

    #[test]
    fn what_was_named_goes_before_the_usual_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, agent: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, format!("[agent]\nname = '{agent}'\n")).expect("a file");
            path
        };
        let name = |file: Option<&Path>, variables: &[(&str, &str)]| {
            load_in(directory.path(), file, variables).expect("good").agent.name.as_str().to_owned()
        };
        assert_eq!(name(None, &[]), "Sotto");
        std::fs::create_dir(directory.path().join("config")).expect("a directory");
        write("config/sotto.toml", "shipped");
        assert_eq!(name(None, &[]), "shipped");
        write("sotto.toml", "own");
        assert_eq!(name(None, &[]), "own");
        let by_variable = write("variable.toml", "variable");
        let variable = [("SOTTO_CONFIG", by_variable.to_str().expect("UTF-8"))];
        assert_eq!(name(None, &variable), "variable");
        let by_argument = write("argument.toml", "argument");
        assert_eq!(name(Some(&by_argument), &variable), "argument");
    }

    #[test]
    fn a_fallback_takes_nothing_from_the_model() {
        let file = "[model]\nurl = 'http://a/v1'\nname = 'a'\nkey = 'main-key'\ntemperature = 1\n\
                    [[model.fallback]]\nurl = 'http://b/v1/'\nname = 'b'\n";
        let config = good(file, &[]);
        let fallback = &config.model.endpoints[1];
        assert_eq!((fallback.url.as_str(), fallback.name.as_str()), ("http://b/v1", "b"));
        assert_eq!((&fallback.key, fallback.temperature), (&None, None));
    }
}

mod instructions {
    use super::*;

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("part.txt"), "You are a pirate.\n").expect("a file");
        std::fs::write(directory.path().join("sotto.toml"), "[agent]\ninstructions_file = 'part.txt'\n")
            .expect("a file");
        directory
    }

    #[test]
    fn come_from_a_file_beside_the_configuration() {
        let directory = directory();
        let config = load_in(directory.path(), None, &[]).expect("good");
        assert_eq!(config.agent.instructions.as_str(), "You are a pirate.");
    }

    #[test]
    fn in_the_environment_go_before_the_files_in_the_configuration() {
        let directory = directory();
        let variables = [("SOTTO_AGENT_INSTRUCTIONS", "Be brief.")];
        let config = load_in(directory.path(), None, &variables).expect("good");
        assert_eq!(config.agent.instructions.as_str(), "Be brief.");
    }

    #[test]
    fn twice_in_one_place_are_refused() {
        assert_problem(
            "[agent]\ninstructions = 'a'\ninstructions_file = 'b'\n",
            &[],
            "sotto.toml:3: agent.instructions_file and agent.instructions exclude each other",
            "leave one out",
        );
    }

    #[test]
    fn in_a_file_that_is_not_there_are_a_problem() {
        assert_problem(
            "[agent]\ninstructions_file = 'nowhere.txt'\n",
            &[],
            "sotto.toml:2: agent.instructions_file is \"nowhere.txt\" but must be a text file that can be read (",
            ")",
        );
    }
}

mod variables_in_strings {
    use super::*;

    #[test]
    fn are_replaced_and_dollars_can_be_escaped() {
        let file = "[agent]\nname = 'a ${B}${C} $${B} $5 }'\n";
        let config = good(file, &[("B", "bee"), ("C", "sea")]);
        assert_eq!(config.agent.name.as_str(), "a beesea ${B} $5 }");
    }

    #[test]
    fn work_for_numbers_and_in_tables() {
        let file = "[model]\nurl = 'http://a/v1'\nretries = '${R}'\nextra = { user = ['${U}'] }\n";
        let config = good(file, &[("R", "2"), ("U", "someone")]);
        assert_eq!(config.model.retries, 2);
        assert_eq!(config.model.endpoints[0].extra["user"], serde_json::json!(["someone"]));
    }

    #[test]
    fn must_be_set_where_the_value_is_used() {
        let file = "[model]\nkey = '${QWEN_KEY}'\n";
        assert_problem(
            file,
            &[],
            "sotto.toml:2: model.key needs the environment variable QWEN_KEY, which is not set",
            "leave the key out",
        );
        good(file, &[("SOTTO_MODEL_KEY", "another")]);
        good(file, &[("QWEN_KEY", "")]);
    }

    #[test]
    fn must_have_a_name() {
        for name in ["${", "${}", "${1A}", "${A B}", "${A"] {
            let file = format!("[agent]\nname = '{name}'\n");
            assert_problem(
                &file,
                &[("A", "a")],
                "sotto.toml:2: agent.name has a ${",
                "write $${ for ${ itself",
            );
        }
    }

    #[test]
    fn are_not_looked_for_in_the_environment() {
        let config = good("", &[("SOTTO_AGENT_NAME", "${HOME}")]);
        assert_eq!(config.agent.name.as_str(), "${HOME}");
    }
}

mod problems_are_told {
    use super::*;

    #[test]
    fn with_key_origin_and_remedy() {
        let cases = [
            (
                "[model]\nretries = 'many'\n",
                "sotto.toml:2: model.retries is \"many\" but must be a whole number from 0 to 100",
            ),
            (
                "[model]\n\nthinking = true\n",
                "sotto.toml:3: model.thinking is true but must be one of \"auto\", \"on\", \"off\", \"inside\"",
            ),
            (
                "[agent]\ndrain_seconds = -1\n",
                "sotto.toml:2: agent.drain_seconds is -1 but must be a number of seconds from 0 to 3600",
            ),
            (
                "[model]\ntemperature = nan\n",
                "sotto.toml:2: model.temperature is NaN but must be a number from 0 to 2",
            ),
            (
                "[tools]\nbuiltin = ['time', 'tea']\n",
                "sotto.toml:2: tools.builtin is a list but must be a list in which each is one of \"time\", \"calculator\"",
            ),
            (
                "[telemetry]\nlog = 'verbose'\n",
                "sotto.toml:2: telemetry.log is \"verbose\" but must be one of off, error, warn, info, debug, trace, \
                 or a filter such as warn,sotto=debug",
            ),
            ("[agent]\nname = 1\n", "sotto.toml:2: agent.name is 1 but must be a string in quotes"),
            (
                "[limits]\nkeys = 99999999999999999999\n",
                "sotto.toml:2: limits.keys is 99999999999999999999 but must be a whole number from 16 to 1000000",
            ),
            (
                "[http]\naddr = 'localhost'\n",
                "sotto.toml:2: http.addr is \"localhost\" but must be an IP address and a port, as 127.0.0.1:8081 or \
                 0.0.0.0:8081, or \"off\"",
            ),
            (
                "[store]\nurl = 'mysql:x'\n",
                "sotto.toml:2: store.url must be \"sqlite:\" and the path of a file, \
                 \"postgres://user:password@host/database\", or \"memory:\"",
            ),
            ("[agent]\nnmae = 'x'\n", "sotto.toml:2: agent.nmae is unknown; did you mean name?"),
            ("[http]\nwhatever = 1\n", "sotto.toml:2: http.whatever is unknown; the keys there are addr"),
            ("[modle]\nurl = 1\n", "sotto.toml:1: modle is unknown; did you mean [model]?"),
            ("verbosity = 1\n", "sotto.toml:1: verbosity is unknown; keys belong under a [section]"),
            (
                "model = 1\n",
                "sotto.toml:1: model is a section; write [model] and its keys in the lines below",
            ),
            (
                "[[model.fallback]]\nurl = 'http://a/v1'\nname = 'a'\n",
                "sotto.toml:1: model.fallback number 1 needs a model to stand in for; set model.url",
            ),
            (
                "[model]\nurl = 'http://a/v1'\n[[model.fallback]]\nurl = 'http://a/v1'\n",
                "sotto.toml:3: model.fallback number 1 has no name; add it",
            ),
            (
                "[model]\nextra = { stream = false }\n",
                "sotto.toml:2: model.extra must be without messages, model, stream, tools",
            ),
        ];
        for (file, problem) in cases {
            assert_eq!(problems(file, &[]), [problem], "{file}");
        }
    }

    #[test]
    fn for_variables_too() {
        let cases = [
            (
                ("SOTTO_REASONING_VISIBILITY", "some"),
                "SOTTO_REASONING_VISIBILITY: reasoning.visibility is \"some\" but must be one of \"full\", \"hidden\"",
            ),
            (
                ("SOTTO_MODEL_ULR", "x"),
                "SOTTO_MODEL_ULR: unknown environment variable; did you mean SOTTO_MODEL_URL?",
            ),
            (
                ("SOTTO_MODLE_URL", "x"),
                "SOTTO_MODLE_URL: unknown environment variable; did you mean SOTTO_MODEL_URL?",
            ),
            (("SOTTO_CONFG", "x"), "SOTTO_CONFG: unknown environment variable; did you mean SOTTO_CONFIG?"),
            (
                ("SOTTO_MODEL_FLAVOUR", "x"),
                "SOTTO_MODEL_FLAVOUR: unknown environment variable; [model] has no such key, unset it \
                 (config/sotto.toml lists them all)",
            ),
            (
                ("SOTTO_TOOLS_BUILTIN", "time"),
                "SOTTO_TOOLS_BUILTIN: tools.builtin can only be set in the file; unset the variable",
            ),
            (
                ("SOTTO_MODEL_FALLBACK", "x"),
                "SOTTO_MODEL_FALLBACK: model.fallback can only be set in the file; unset the variable",
            ),
        ];
        for (variable, problem) in cases {
            assert_eq!(problems("", &[variable]), [problem]);
        }
    }

    #[test]
    fn not_about_variables_of_others() {
        let names = [
            "SOTTO_LOG",
            "SOTTO_TEST_MODEL_URL",
            "SOTTO_LIVEKIT_SERVER",
            "SOTTO_LIVEKIT_ANY_VERSION",
            "SOTTO_PYTHON",
            "SOTTO_REQUIRE_NETNS",
            "SOTTO_HTTP_SERVICE_HOST",
            "SOTTO_HTTP_SERVICE_PORT",
            "SOTTO_HTTP_PORT_8081_TCP_ADDR",
            "LIVEKIT_KEYS",
        ];
        good("", &names.map(|name| (name, "x")));
    }

    #[test]
    fn all_at_once() {
        let file = "[model]\nretries = 'many'\n[agent]\nnmae = 'x'\n[nothing]\n";
        assert_eq!(problems(file, &[("SOTTO_HTTP_ADDR", "here")]).len(), 4);
        let environment = [("SOTTO_HTTP_ADDR", "here"), ("SOTTO_MODEL_RETRIES", "x")].into_iter().collect();
        let error =
            Config::load_from(None, Path::new("/nonexistent"), &environment).expect_err("two problems");
        let text = error.to_string();
        assert!(text.starts_with("the configuration has 2 problems:\n  SOTTO_MODEL_RETRIES: "), "{text}");
    }

    #[test]
    fn about_a_file_that_cannot_be_read() {
        let directory = tempfile::tempdir().expect("a directory");
        for file in ["missing.toml", "."] {
            let path = directory.path().join(file);
            let problems = load_in(directory.path(), Some(&path), &[]).expect_err("no such file");
            let [problem] = &problems[..] else { panic!("{problems:?}") };
            assert!(problem.contains(": cannot read the configuration file: "), "{problem}");
        }
    }

    #[test]
    fn about_a_value_that_is_not_utf_8() {
        use std::os::unix::ffi::OsStringExt;
        let value = std::ffi::OsString::from_vec(vec![0xff]);
        let environment = [("SOTTO_AGENT_NAME", value)].into_iter().collect();
        let error = Config::load_from(None, Path::new("/nonexistent"), &environment).expect_err("not UTF-8");
        assert_eq!(
            error.to_string(),
            "SOTTO_AGENT_NAME: the environment variable is not valid UTF-8; set it anew"
        );
    }

    #[test]
    fn about_urls_that_cannot_be_meant() {
        for url in ["localhost:8000/v1", "ftp://a/v1", "http://", "nonsense", "http://a", "http://a/v1?b=c"] {
            let problem = problems("", &[("SOTTO_MODEL_URL", url)]);
            assert!(problem[0].starts_with("SOTTO_MODEL_URL: model.url must be "), "{problem:?}");
        }
        let problem = problems("", &[("SOTTO_MODEL_URL", "http://a/v1/chat/completions")]);
        assert!(problem[0].ends_with("leave out /chat/completions"), "{problem:?}");
    }

    #[test]
    fn about_missing_credentials_only_when_they_are_needed() {
        let error = Config::default().livekit.credentials().expect_err("none");
        assert_eq!(
            error.to_string(),
            "livekit.api_key is not set; set LIVEKIT_API_KEY, or api_key under [livekit] in the configuration file"
        );
    }
}
