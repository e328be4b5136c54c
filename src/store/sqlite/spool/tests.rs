//! The file beside the database, without one.

use super::*;
use crate::store::records::{KeptStanza, Lease};
use tempfile::TempDir;

fn said(number: i64, bytes: usize) -> Quick {
    let stanza = KeptStanza {
        number,
        audience: "everyone".to_owned(),
        reasoning: false,
        body: format!("said {number}").into_bytes().into_iter().cycle().take(bytes).collect(),
    };
    Quick { at: 7, lease: Lease { conversation: 1, fence: 3 }, stanzas: vec![stanza] }
}

struct Place {
    _directory: TempDir,
    database: PathBuf,
    process: Process,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().expect("a directory");
        let database = directory.path().join("sotto.db");
        Self { _directory: directory, database, process: Process::this() }
    }

    fn spool(&self) -> Spool {
        Spool::new(&self.database, &self.process)
    }

    /// The numbers of what another process would find.
    fn left(&self) -> Vec<i64> {
        let left = left_by(&self.database, &self.process.id).expect("it can be read");
        left.stanzas.iter().flat_map(|quick| &quick.stanzas).map(|stanza| stanza.number).collect()
    }

    /// Somebody thinks that the process is gone.
    fn take_away(&self) {
        let left = left_by(&self.database, &self.process.id).expect("it can be read");
        remove(&left.files).expect("it can be removed");
    }

    fn owners(&self) -> Vec<String> {
        owners(&self.database, &Process::this()).expect("it can be read")
    }
}

#[test]
fn what_is_kept_is_found_by_others_until_it_is_in_the_tables() {
    let place = Place::new();
    let spool = place.spool();
    assert!(spool.is_clear() && place.owners().is_empty());
    for number in [-1, -2, -3] {
        assert!(spool.write(said(number, 9), 1));
    }
    assert_eq!(place.left(), [-1, -2, -3]);
    assert_eq!(place.owners(), [&place.process.id[..]]);
    assert_eq!(owners(&place.database, &place.process).expect("it can be read"), [""; 0], "one's own");

    spool.written(2);
    assert_eq!(place.left(), [-1, -2, -3], "the rest is still on its way");
    assert!(!spool.is_clear());
    assert!(spool.write(said(-4, 9), 1));
    spool.written(2);
    assert!(spool.is_clear() && place.left().is_empty());
    let file = fs::read(spool.path(1)).expect("it is there");
    assert!(file.iter().all(|byte| *byte == 0), "nothing of what was said stays");

    assert!(spool.write(said(-5, 9), 1));
    assert_eq!(place.left(), [-5], "it begins again");
    place.take_away();
    assert!(place.owners().is_empty());
    spool.written(1);
    assert!(spool.write(said(-6, 9), 1));
    assert_eq!(place.left(), [-6], "another file, for the former is nobody's any more");
}

#[test]
fn there_is_an_end_to_what_may_be_on_its_way() {
    let place = Place::new();
    let spool = place.spool();
    let kept = (1_i64..1_000).take_while(|number| spool.write(said(-number, 4_000), 1)).count();
    assert!((60..=66).contains(&kept), "{kept}");
    assert_eq!(place.left().len(), kept);
    spool.written(kept);
    assert!(place.left().is_empty());
    assert!(
        fs::metadata(spool.path(1)).is_ok_and(|file| file.len() == READY as u64),
        "nor does it stay large"
    );
    assert!(spool.write(said(-1_000, 4_000), 1));
}

/// Others may have taken the former file as theirs.
#[test]
fn after_a_silence_another_file_is_begun_with_what_is_still_on_its_way() {
    let place = Place::new();
    let spool = place.spool();
    assert!(spool.write(said(-1, 9), 1));
    place.take_away();
    assert!(spool.write(said(-2, 9), 2));
    assert!(!spool.write(said(-3, 9), 1), "that comes too late");
    assert_eq!(place.left(), [-1, -2]);
    spool.written(2);
    spool.close();
    assert!(place.owners().is_empty());
}

#[test]
fn a_spool_that_is_closed_takes_nothing_and_leaves_what_is_not_in_the_tables() {
    let place = Place::new();
    let spool = place.spool();
    assert!(spool.write(said(-1, 9), 1));
    spool.close();
    assert!(!spool.write(said(-2, 9), 1));
    assert_eq!(place.left(), [-1]);
}

/// What somebody has read and brought in is removed, not what was begun meanwhile.
#[test]
fn a_file_that_was_begun_after_another_was_read_stays() {
    let place = Place::new();
    let spool = place.spool();
    assert!(spool.write(said(-1, 9), 1));
    let left = left_by(&place.database, &place.process.id).expect("it can be read");
    assert!(spool.write(said(-2, 9), 2));
    remove(&left.files).expect("it may be gone already");
    assert_eq!(place.left(), [-1, -2]);
}

#[test]
fn copies_that_somebody_made_are_left_alone() {
    let place = Place::new();
    let spool = place.spool();
    assert!(spool.write(said(-1, 9), 1));
    fs::copy(spool.path(1), spool.path(1).with_extension("1.bak")).expect("it can be copied");
    assert_eq!(place.left(), [-1]);
}

#[test]
fn spools_of_another_database_are_another_s() {
    let place = Place::new();
    assert!(Spool::new(&place.database.with_file_name("other.db"), &place.process).write(said(-1, 9), 1));
    assert!(place.owners().is_empty() && place.left().is_empty());
}
