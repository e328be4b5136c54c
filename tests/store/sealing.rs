//! Encryption at rest: what cannot be read without the key, and what can.

use crate::bench::{
    Bench, answer, begun, elsewhere, joined, journal, kept, masters, message, message_of, new_key, reasoning,
    settings, stanza, stanza_for,
};
use futures_util::TryStreamExt;
use sotto::ports::StoreError;
use sotto::store::process::Process;
use sotto::store::{Archive, Deleted, Entry, KeptReasoning, Settings};
use sotto_core::engine::people::Audience;
use sotto_core::engine::policy::Taint;
use sotto_core::engine::record::{BrokenOff, Record, Stanza, ToolBegun, ToolEnded, Variation};
use sotto_core::model::ToolCall;
use sotto_core::time::Time;
use sotto_core::wire::body::VariationMode;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

const CANARY: &str = "canary-7f3a";

fn sealed_with(keys: &[&String]) -> Settings {
    Settings { keys: Some(masters(keys)), ..settings() }
}

async fn open(bench: &Bench, settings: Settings) -> Arc<dyn Archive> {
    bench.open_with(settings, Process::this()).await
}

/// A conversation with canaries in all that is anybody's words.
fn canaries() -> Vec<Record> {
    let (canary, at) = (|| CANARY.repeat(30), Time(7));
    let arguments = serde_json::Map::from_iter([(CANARY.to_owned(), CANARY.into())]);
    let call = ToolCall { id: "call1".to_owned(), name: CANARY.to_owned(), arguments: Ok(arguments) };
    let Record::Answer(answered) = answer("m1") else { panic!("it is one") };
    let stanza = |number, audience| Record::Stanza(Stanza { number, audience, bytes: canary().into_bytes() });
    let Record::Message(said) = message_of("m1", &canary()) else { panic!("it is one") };
    vec![
        joined("alice", 0),
        Record::Message(sotto_core::engine::record::Message { name: canary(), ..said }),
        begun("m1", "am_m1", 0),
        stanza(-1, Audience::Reasoning),
        reasoning("m1", &canary()),
        Record::ToolBegun(ToolBegun {
            message: "m1".to_owned(),
            call,
            request: "atu_1".to_owned(),
            repeatable: true,
            handed: false,
            taint: Taint::default(),
            at,
        }),
        Record::ToolEnded(ToolEnded { call: "call1".to_owned(), content: canary(), at }),
        Record::BrokenOff(BrokenOff {
            message: "m1".to_owned(),
            answer: "am_0".to_owned(),
            text: canary(),
            at,
        }),
        Record::Answer(sotto_core::engine::record::Answer { text: canary(), ..answered }),
        stanza(-2, Audience::Everyone),
        Record::Variation(Variation {
            from: "alice".to_owned(),
            target: "m1".to_owned(),
            mode: VariationMode::Edit,
            text: Some(canary()),
            at,
        }),
    ]
}

async fn write(store: &Arc<dyn Archive>, name: &str, records: Vec<Record>) {
    journal(store, name).await.append(records, true).await.expect("the store works");
}

async fn entries(store: &Arc<dyn Archive>, name: &str) -> Vec<Entry> {
    store.entries(name).try_collect().await.expect("the store can be read")
}

async fn refusal(store: &Arc<dyn Archive>, name: &str) -> String {
    match store.open(name).await {
        Err(StoreError::Broken(words)) => words,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it cannot be opened"),
    }
}

/// In how many places of the database a canary can be read.
async fn readable(bench: &Bench) -> usize {
    if let Some(file) = bench.sqlite_file() {
        let files = fs::read_dir(file.parent().expect("it is in a directory")).expect("it is there");
        let has_canary =
            |bytes: Vec<u8>| bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        return files
            .filter(|file| has_canary(fs::read(file.as_ref().expect("it is there").path()).expect("a file")))
            .count();
    }
    let mut found = 0;
    for select in [
        "SELECT count(*) FROM records r WHERE position('canary-7f3a'::bytea IN body) > 0 OR r::text LIKE '%canary%'",
        "SELECT count(*) FROM stanzas s WHERE position('canary-7f3a'::bytea IN body) > 0 OR s::text LIKE '%canary%'",
        "SELECT count(*) FROM participants p WHERE position('canary-7f3a'::bytea IN body) > 0 OR p::text LIKE '%canary%'",
        "SELECT count(*) FROM conversations c WHERE c::text LIKE '%canary%'",
        "SELECT count(*) FROM open o WHERE o::text LIKE '%canary%'",
        "SELECT count(*) FROM data_keys k WHERE k::text LIKE '%canary%'",
    ] {
        found += usize::try_from(bench.count(select).await).expect("a count");
    }
    found
}

pub(crate) async fn nothing_that_was_said_can_be_read_without_the_key(bench: Bench) {
    let key = new_key();
    let store = open(&bench, sealed_with(&[&key])).await;
    write(&store, "room", canaries()).await;
    assert_eq!(readable(&bench).await, 0);
    assert_eq!(kept(&store, "room").await, canaries());
    let room = journal(&store, "room").await;
    let history = room.history().await.expect("the store works");
    assert!(history.records.contains(&canaries()[1]));
    assert_eq!(room.stanzas(0, i32::MIN, 9).await.expect("the store works").stanzas.len(), 2);
    drop(room);
    let report = store.check().await.expect("the store works");
    assert_eq!((report.sealed, report.problems), (1, vec![]));
    store.close().await;
    assert_eq!(readable(&bench).await, 0);

    // It would be seen, were it not sealed.
    let store = open(&bench, settings()).await;
    write(&store, "another", canaries()).await;
    assert!(readable(&bench).await > 0);
}

pub(crate) async fn a_row_is_good_in_its_place_alone(bench: Bench) {
    let key = new_key();
    let store = open(&bench, sealed_with(&[&key])).await;
    write(&store, "one", vec![message("m1"), message("m2"), stanza(-1), stanza(-2)]).await;
    write(&store, "two", vec![message_of("m1", "Other."), stanza_for(-1, Audience::Streaming, 9)]).await;
    // From another conversation, and from another place of the same one.
    bench
        .run(
            "UPDATE records SET body = (SELECT o.body FROM records o WHERE o.seq = 1 AND o.conversation <> records.conversation) \
             WHERE seq = 1 AND conversation = (SELECT id FROM conversations WHERE name = 'one')",
        )
        .await;
    bench
        .run("UPDATE stanzas SET body = (SELECT o.body FROM stanzas o WHERE o.number = -2) WHERE number = -1")
        .await;
    let report = store.check().await.expect("the store works");
    assert!(
        report.problems.iter().any(|problem| problem.starts_with("3 sealed rows cannot be opened")),
        "{report:?}"
    );
    assert_eq!(kept(&store, "one").await, [message("m2"), stanza(-2)]);
    assert_eq!(kept(&store, "two").await, [message_of("m1", "Other.")]);
    // Nor can what was for some be made into something for everyone.
    write(&store, "three", vec![stanza_for(-1, Audience::Reasoning, 9)]).await;
    bench.run("UPDATE stanzas SET audience = 'everyone' WHERE audience = 'reasoning'").await;
    assert_eq!(kept(&store, "three").await, []);
    let room = journal(&store, "one").await;
    assert_eq!(room.history().await.expect("the rest is worth having").records, [message("m2")]);
}

pub(crate) async fn without_the_right_key_nobody_goes_on_and_nothing_is_shown(bench: Bench) {
    let (key, other) = (new_key(), new_key());
    let store = open(&bench, sealed_with(&[&key])).await;
    write(&store, "room", canaries()).await;
    store.close().await;
    let id = masters(&[&key]).id().to_owned();
    for wrong in [settings(), sealed_with(&[&other])] {
        let store = open(&bench, wrong).await;
        let words = refusal(&store, "room").await;
        assert!(words.contains(&id) && words.contains("store.key"), "{words}");

        let shown = entries(&store, "room").await;
        assert_eq!(shown.len(), canaries().len());
        assert!(!format!("{shown:?}").contains(CANARY));
        let sealed: Vec<_> = shown.iter().map(|entry| entry.sealed.is_some()).collect();
        // Who was there is not sealed, all else is.
        assert_eq!((sealed[0], sealed[1..].contains(&false)), (false, false));
        let bare: Vec<_> = canaries().iter().map(Record::without_content).collect();
        assert_eq!(shown.into_iter().map(|entry| entry.record).collect::<Vec<_>>(), bare);

        let report = store.check().await.expect("the store works");
        assert!(matches!(&report.problems[..], [problem] if problem.contains(&id)), "{report:?}");
        assert_eq!(report.sealed, 1);
        store.close().await;
    }
    // Another conversation can be had all the same, and with the key this one as well.
    write(&open(&bench, sealed_with(&[&other])).await, "new", vec![message("m1")]).await;
    let store = open(&bench, sealed_with(&[&other, &key])).await;
    assert_eq!(kept(&store, "room").await, canaries());
    journal(&store, "room").await.history().await.expect("the key is there");
}

pub(crate) async fn what_needs_no_key_works_without_one(bench: Bench) {
    let key = new_key();
    let store = open(&bench, sealed_with(&[&key])).await;
    write(&store, "room", canaries()).await;
    write(&store, "old", canaries()).await;
    store.close().await;

    let without = Settings { reasoning: KeptReasoning::Replay, ..settings() };
    let store = open(&bench, without.clone()).await;
    let names = |store: Arc<dyn Archive>| async move {
        let summaries: Vec<_> = store.conversations().try_collect().await.expect("the store works");
        summaries.into_iter().map(|summary| (summary.name, summary.messages)).collect::<Vec<_>>()
    };
    assert_eq!(names(Arc::clone(&store)).await, [("old".to_owned(), 1), ("room".to_owned(), 1)]);
    // Thoughts are erased; that there were some stays.
    bench.run("UPDATE records SET at = at - 90000000").await;
    bench.run("UPDATE stanzas SET at = at - 90000000").await;
    store.tidy().await.expect("no key is needed");
    let thoughts = entries(&store, "room").await.into_iter().find_map(|entry| match entry.record {
        Record::Reasoning(reasoning) => Some((reasoning.message, reasoning.steps, entry.sealed)),
        _ => None,
    });
    assert_eq!(thoughts, Some(("m1".to_owned(), vec![], None)));
    // Conversations go by themselves and by hand.
    bench.run("UPDATE conversations SET updated = updated - 2700000000 WHERE name = 'old'").await;
    let forgets = Settings { retention: Some(Duration::from_secs(30 * 86_400)), ..without };
    let forgetful = bench.open_with(forgets, elsewhere()).await;
    forgetful.tidy().await.expect("no key is needed");
    assert_eq!(names(Arc::clone(&store)).await, [("room".to_owned(), 1)]);
    assert!(matches!(store.delete("room").await, Ok(Deleted::FromDisk | Deleted::FromTables)));
    let report = store.check().await.expect("the store works");
    assert_eq!((report.conversations, report.sealed, report.problems), (0, 0, vec![]));
}

pub(crate) async fn keys_are_rotated(bench: Bench) {
    let (old, new) = (new_key(), new_key());
    let store = open(&bench, sealed_with(&[&old])).await;
    write(&store, "one", canaries()).await;
    write(&store, "two", canaries()).await;
    store.close().await;

    let store = open(&bench, sealed_with(&[&new, &old])).await;
    // Beside an agent that is in the middle of it.
    let room = journal(&store, "one").await;
    let done = store.rekey().await.expect("both keys are there");
    assert_eq!((done.wrapped, done.sealed, done.left.len()), (2, 0, 0));
    assert_eq!(done.key, masters(&[&new]).id());
    room.append(vec![message("m9")], true).await.expect("the conversation's own key is the same");
    drop(room);
    let again = store.rekey().await.expect("twice does no harm");
    assert_eq!((again.wrapped, again.sealed), (0, 0));
    store.close().await;

    let store = open(&bench, sealed_with(&[&new])).await;
    assert_eq!(kept(&store, "two").await, canaries());
    assert_eq!(kept(&store, "one").await.last(), Some(&message("m9")));
    store.close().await;
    refusal(&open(&bench, sealed_with(&[&old])).await, "one").await;
}

pub(crate) async fn what_was_in_the_clear_is_sealed_later(bench: Bench) {
    let (key, lost) = (new_key(), new_key());
    let store = open(&bench, Settings { reasoning: KeptReasoning::Replay, ..settings() }).await;
    write(&store, "room", canaries()).await;
    bench.run("UPDATE records SET at = at - 90000000 WHERE kind = 'reasoning'").await;
    store.tidy().await.expect("the store works");
    let before = kept(&store, "room").await;
    write(&store, "long", (1..=450).map(|number| stanza(-number)).collect()).await;
    store.close().await;
    assert!(readable(&bench).await > 0);
    assert!(
        matches!(open(&bench, settings()).await.rekey().await, Err(StoreError::Broken(_))),
        "there is no key"
    );

    // One that is sealed with a key that is not there stays as it is, and is told of.
    let store = open(&bench, sealed_with(&[&lost])).await;
    write(&store, "lost", vec![message("m1")]).await;
    store.close().await;
    let store = open(&bench, sealed_with(&[&key])).await;
    let done = store.rekey().await.expect("the store works");
    // All but who was there, and the thoughts that were erased.
    assert_eq!((done.wrapped, done.sealed), (0, canaries().len() as u64 - 2 + 450));
    assert_eq!(done.left.values().sum::<u64>(), 1, "{done:?}");
    assert!(done.left.keys().all(|why| why.contains(masters(&[&lost]).id())), "{done:?}");
    assert_eq!(readable(&bench).await, 0);
    assert_eq!(kept(&store, "room").await, before);
    assert_eq!(kept(&store, "long").await.len(), 450);
    assert_eq!(
        journal(&store, "long").await.stanzas(0, i32::MIN, 450).await.expect("it works").stanzas.len(),
        450
    );
}

pub(crate) async fn older_programs_stay_away_once_something_is_sealed(bench: Bench) {
    open(&bench, settings()).await.close().await;
    assert_eq!(bench.works_with().await, 1);
    let key = new_key();
    write(&open(&bench, sealed_with(&[&key])).await, "room", vec![message("m1")]).await;
    assert_eq!(bench.works_with().await, 2);
}

pub(crate) async fn the_keys_are_in_a_private_file_of_their_own(bench: Bench) {
    let keys = bench.file().with_file_name("sotto.db-keys");
    let store = open(&bench, settings()).await;
    write(&store, "room", vec![message("m1")]).await;
    store.close().await;
    assert!(!keys.exists(), "nothing is sealed");
    let key = new_key();
    let store = open(&bench, sealed_with(&[&key])).await;
    write(&store, "room", vec![message("m2")]).await;
    for suffix in ["", "-wal"] {
        let file = bench.file().with_file_name(format!("sotto.db-keys{suffix}"));
        let mode = fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    // From now on it is needed, whether keys are configured or not.
    store.close().await;
    refusal(&open(&bench, settings()).await, "room").await;
}

/// The store as it was when it is copied: closed, so that all is in the file.
async fn backup(bench: &Bench, store: Arc<dyn Archive>) -> Vec<u8> {
    store.close().await;
    fs::read(bench.file()).expect("it is there")
}

fn restore(bench: &Bench, backup: &[u8]) {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(bench.file().with_file_name(format!("sotto.db{suffix}")));
    }
    fs::write(bench.file(), backup).expect("there is room");
}

/// The keys of conversations as they are kept, oldest first.
async fn wrapped_keys(bench: &Bench) -> Vec<Vec<u8>> {
    use sqlx::{Connection, SqliteConnection};
    let url = format!("sqlite:{}-keys", bench.file().display());
    let mut connection = SqliteConnection::connect(&url).await.expect("it is there");
    let select = sqlx::query_scalar("SELECT wrapped FROM data_keys ORDER BY conversation");
    select.fetch_all(&mut connection).await.expect("it has a table")
}

pub(crate) async fn deleting_erases_backups_too(bench: Bench) {
    let key = new_key();
    let store = open(&bench, sealed_with(&[&key])).await;
    write(&store, "room", canaries()).await;
    write(&store, "stays", canaries()).await;
    let backup = backup(&bench, store).await;
    let wrapped = wrapped_keys(&bench).await;
    let store = open(&bench, sealed_with(&[&key])).await;
    assert!(matches!(store.delete("room").await, Ok(Deleted::FromDisk | Deleted::FromTables)));
    // Its key is gone from the disk as well, and the other one's is not.
    let keys = ["-keys", "-keys-wal"].map(|suffix| bench.file().with_file_name(format!("sotto.db{suffix}")));
    let keys = keys.map(|file| fs::read(file).unwrap_or_default()).concat();
    let is_there = |key: &Vec<u8>| keys.windows(key.len()).any(|window| window == key);
    assert_eq!(wrapped.iter().map(is_there).collect::<Vec<_>>(), [false, true]);
    store.close().await;

    restore(&bench, &backup);
    let store = open(&bench, sealed_with(&[&key])).await;
    assert_eq!(kept(&store, "stays").await, canaries());
    let words = refusal(&store, "room").await;
    assert!(words.contains("erased"), "{words}");
    let shown = entries(&store, "room").await;
    assert!(shown.len() == canaries().len() && !format!("{shown:?}").contains(CANARY));
    let report = store.check().await.expect("the store works");
    assert!(
        matches!(&report.problems[..], [problem] if problem.starts_with("1 conversations are sealed and")),
        "{report:?}"
    );
    assert!(matches!(store.delete("room").await, Ok(Deleted::FromDisk | Deleted::FromTables)));
    assert_eq!(store.check().await.expect("the store works").problems, [""; 0]);
}

pub(crate) async fn a_backup_without_its_keys_is_not_taken_for_a_new_beginning(bench: Bench) {
    let key = new_key();
    let store = open(&bench, sealed_with(&[&key])).await;
    write(&store, "room", canaries()).await;
    let backup = backup(&bench, store).await;
    let keys = bench.file().with_file_name("sotto.db-keys");
    let saved = fs::read(&keys).expect("it is there");
    for with in [settings(), sealed_with(&[&key])] {
        restore(&bench, &backup);
        fs::remove_file(&keys).expect("it was there");
        let store = open(&bench, with.clone()).await;
        let room = store.open("room").await;
        // Without any key it is seen when it is read, with one at once.
        let refused = match &room {
            Ok(room) => room.history().await.map(drop),
            Err(error) => Err(error.clone()),
        };
        assert!(
            matches!(&refused, Err(StoreError::Broken(words)) if words.contains("backup")),
            "{refused:?}"
        );
        drop(room);
        assert_eq!(store.check().await.expect("the store works").problems.len(), 1);
        store.close().await;
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(bench.file().with_file_name(format!("sotto.db-keys{suffix}")));
        }
        fs::write(&keys, &saved).expect("there is room");
    }
    assert_eq!(kept(&open(&bench, sealed_with(&[&key])).await, "room").await, canaries());
}

pub(crate) async fn a_file_of_keys_that_is_none_is_told_as_such(bench: Bench) {
    let keys = bench.file().with_file_name("sotto.db-keys");
    fs::write(&keys, "This is a text, and a rather long one, but not a database.".repeat(20))
        .expect("there is room");
    let Err(StoreError::Broken(words)) = bench.try_open(settings(), elsewhere()).await else {
        panic!("it cannot be used")
    };
    assert!(words.contains("sotto.db-keys is not an SQLite database"), "{words}");
}

/// As docs/store.md says.
pub(crate) async fn a_dump_and_its_keys_are_restored_apart(bench: Bench) {
    let directory = tempfile::TempDir::new().expect("there is room for temporary files");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (dump, keys) = (file("backup.dump"), file("keys.dump"));
    let key = new_key();
    let store = open(&bench, sealed_with(&[&key])).await;
    write(&store, "room", canaries()).await;
    write(&store, "gone", canaries()).await;
    bench.tool("pg_dump", &["--format=custom", "--exclude-table=data_keys", "--file", &dump]);
    bench.tool("pg_dump", &["--format=custom", "--table=data_keys", "--file", &keys]);
    assert!(matches!(store.delete("gone").await, Ok(Deleted::FromDisk | Deleted::FromTables)));
    write(&store, "room", vec![message("m2")]).await;
    store.close().await;

    let restore = |dump: &str| bench.tool("pg_restore", &["--clean", "--if-exists", dump]);
    restore(&dump);
    let store = open(&bench, sealed_with(&[&key])).await;
    assert_eq!(kept(&store, "room").await, canaries());
    refusal(&store, "gone").await;
    store.close().await;
    // Without any keys it is the same with all of them, until those come back.
    bench.run("DROP TABLE data_keys").await;
    let store = open(&bench, sealed_with(&[&key])).await;
    refusal(&store, "room").await;
    store.close().await;
    restore(&keys);
    assert_eq!(kept(&open(&bench, sealed_with(&[&key])).await, "room").await, canaries());
}
