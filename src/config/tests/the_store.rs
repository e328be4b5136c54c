//! Where conversations are kept, and with what they are sealed.

use super::*;
use crate::store::MasterKeys;

fn url(file: &str, variables: &[(&str, &str)]) -> StoreUrl {
    good(file, variables).store.url
}

#[test]
fn is_a_file_in_the_users_data_directory_unless_said_otherwise() {
    let sqlite = |path: &str| StoreUrl::Sqlite(path.into());
    assert_eq!(url("", &[("HOME", "/home/a")]), sqlite("/home/a/.local/share/sotto/sotto.db"));
    let both = [("HOME", "/home/a"), ("XDG_DATA_HOME", "/data")];
    assert_eq!(url("", &both), sqlite("/data/sotto/sotto.db"));
    assert_eq!(url("[store]\nurl = 'sqlite:'\n", &both), sqlite("/data/sotto/sotto.db"));
    assert_eq!(url("", &[("HOME", "/home/a"), ("XDG_DATA_HOME", "data")]), url("", &[("HOME", "/home/a")]));
    assert_eq!(url("", &[]), sqlite("sotto.db"));
    assert_eq!(url("", &[("SOTTO_STORE_URL", "memory:")]), StoreUrl::Memory);
    for written in ["sqlite:/data/x.db", "sqlite:///data/x.db"] {
        assert_eq!(url("", &[("SOTTO_STORE_URL", written)]), sqlite("/data/x.db"));
    }
    assert_eq!(url("", &[("SOTTO_STORE_URL", "sqlite:x.db")]), sqlite("x.db"));
}

#[test]
fn lies_beside_the_file_that_names_it() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("sotto.toml"), "[store]\nurl = 'sqlite:data/x.db'\n")
        .expect("a file");
    let config = load_in(directory.path(), None, &[]).expect("a good configuration");
    assert_eq!(config.store.url, StoreUrl::Sqlite(directory.path().join("data/x.db")));
}

#[test]
fn is_sealed_with_keys_from_the_configuration_or_a_file_beside_it() {
    let keys = [0, 1].map(|_| MasterKeys::generate().expect("random numbers"));
    let expected = MasterKeys::parse(&keys.join(",")).expect("good keys");
    assert_eq!(good("", &[("SOTTO_STORE_KEY", &keys.join(","))]).store.key, expected);
    assert_eq!(good("[store]\nkey = '${K}'\n", &[("K", &keys.join(" "))]).store.key, expected);

    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, content: &str| {
        std::fs::write(directory.path().join(name), content).expect("a file");
    };
    write("sotto.toml", "[store]\nkey_file = 'keys.txt'\n");
    write("keys.txt", &format!("# newest first\n{}\n{} # until May\n", keys[0], keys[1]));
    let load = |variables: &[(&str, &str)]| load_in(directory.path(), None, variables);
    assert_eq!(load(&[]).expect("good keys").store.key, expected);

    let both = load(&[("SOTTO_STORE_KEY", &keys[0])]).expect_err("which of them?");
    assert_eq!(both, ["sotto.toml:2: store.key_file and store.key exclude each other; leave one out"]);
    write("keys.txt", "# none yet\n");
    let none = "sotto.toml:2: store.key_file must be one or several keys, the newest first; `sotto store key` makes one";
    assert_eq!(load(&[]).expect_err("no key"), [none]);
    write("keys.txt", "c2hvcnQ=\n");
    let short = "sotto.toml:2: store.key_file must be made of good keys, but key 1 of 1 is not the base64 of 32 bytes; \
                 `sotto store key` makes one";
    assert_eq!(load(&[]).expect_err("no key"), [short]);
    std::fs::remove_file(directory.path().join("keys.txt")).expect("it is there");
    let missing = load(&[]).expect_err("no file");
    assert!(
        missing[0].starts_with("sotto.toml:2: store.key_file is \"keys.txt\" but must be a file of keys"),
        "{missing:?}"
    );
}
