//! Asks for one key after the other, and remembers which were asked for: what nobody asked for is unknown.
//!
//! So the code that reads a section is the only list of its keys. A problem never stops the reading; all of them are
//! told together at the end.

use super::error::{ConfigError, closest};
use super::source::{Environment, File, Given, Origin, Raw};
use super::value::Mismatch;
use super::{FILE_VARIABLE, Secret};
use std::collections::BTreeMap;
use std::path::Path;

/// Variables that begin like ours and are not configuration: what the tests are told.
const OTHER_VARIABLES: [&str; 2] = ["SOTTO_LIVEKIT_SERVER", "SOTTO_LIVEKIT_ANY_VERSION"];
/// Read elsewhere; here only so that a slip in their names is noticed.
const LOG_VARIABLE: &str = "SOTTO_LOG";

/// Reads a whole configuration.
pub(super) struct Reader<'a> {
    environment: &'a Environment,
    file: BTreeMap<String, Given>,
    sections: Vec<&'static str>,
    /// The variables that were asked for.
    variables: Vec<String>,
    secrets: Vec<Secret>,
    problems: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: Option<File>, environment: &'a Environment) -> Self {
        Self {
            environment,
            file: file.map(|file| file.entries).unwrap_or_default(),
            sections: Vec::new(),
            variables: vec![FILE_VARIABLE.to_owned(), LOG_VARIABLE.to_owned()],
            secrets: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Reads one section; `read` must ask for each of its keys.
    pub(super) fn section<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Section<'_, 'a>) -> T,
    ) -> T {
        self.sections.push(name);
        let entries = match self.file.remove(name) {
            None => BTreeMap::new(),
            Some(Given { raw: Raw::Table(entries), .. }) => entries,
            Some(other) => {
                self.problems.push(format!(
                    "{}: {name} is a section; write [{name}] and its keys in the lines below",
                    other.origin
                ));
                BTreeMap::new()
            }
        };
        self.table(name, None, entries, read)
    }

    fn table<T>(
        &mut self,
        name: &str,
        item: Option<&Origin>,
        entries: BTreeMap<String, Given>,
        read: impl FnOnce(&mut Section<'_, 'a>) -> T,
    ) -> T {
        let mut section = Section { reader: self, name, item, entries, keys: Vec::new() };
        let value = read(&mut section);
        section.refuse_unknown_keys();
        value
    }

    /// The values of `${NAME}` so far, and the secrets.
    pub(super) fn take_secrets(&mut self) -> Vec<Secret> {
        std::mem::take(&mut self.secrets)
    }

    /// The variables that were asked for so far: one for each key, and a few more.
    #[cfg(test)]
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(String::as_str)
    }

    /// To be called after the last section: good, or all that is wrong.
    pub(super) fn finish(mut self) -> Result<(), ConfigError> {
        for (name, given) in std::mem::take(&mut self.file) {
            let hint = match (&given.raw, closest(&name, self.sections.iter().copied())) {
                (_, Some(meant)) => format!("did you mean [{meant}]?"),
                (Raw::Table(_), None) => format!("the sections are {}", self.sections.join(", ")),
                _ => "keys belong under a [section]".to_owned(),
            };
            self.problems.push(format!("{}: {name} is unknown; {hint}", given.origin));
        }
        let unknown: Vec<_> =
            self.environment.names().filter_map(|variable| self.unknown_variable(variable)).collect();
        self.problems.extend(unknown);
        let mut problems = self.problems.into_iter();
        problems.next().map_or(Ok(()), |first| Err(ConfigError::new(first, problems)))
    }

    /// What is wrong with a variable, if it looks like one of ours and is not.
    fn unknown_variable(&self, variable: &str) -> Option<String> {
        let name = variable.strip_prefix("SOTTO_")?;
        let is_known = self.variables.iter().any(|known| known == variable);
        if is_known
            || OTHER_VARIABLES.contains(&variable)
            || name.starts_with("TEST_")
            || is_set_by_kubernetes(variable)
        {
            return None;
        }
        let section = name.split_once('_').map(|(section, _)| section.to_lowercase());
        let section = self.sections.iter().find(|known| Some(**known) == section.as_deref());
        match (closest(variable, self.variables.iter().map(String::as_str)), section) {
            (Some(meant), _) => {
                Some(format!("{variable}: unknown environment variable; did you mean {meant}?"))
            }
            (None, Some(section)) => Some(format!(
                "{variable}: unknown environment variable; [{section}] has no such key, unset it (config/sotto.toml \
                 lists them all)"
            )),
            // Somebody else's.
            (None, None) => None,
        }
    }
}

/// Kubernetes gives each pod variables about each service, after the service's name; one that is called `sotto` or
/// `sotto-http` must not stop us. No key of ours ends like these.
fn is_set_by_kubernetes(variable: &str) -> bool {
    variable.ends_with("_SERVICE_HOST") || variable.ends_with("_PORT") || variable.contains("_PORT_")
}

/// Reads the keys of one section, or of one table in a list.
pub(super) struct Section<'r, 'a> {
    reader: &'r mut Reader<'a>,
    name: &'r str,
    /// Where it begins, if it is one of a list; its keys are then in the file alone.
    item: Option<&'r Origin>,
    entries: BTreeMap<String, Given>,
    /// The keys that were asked for.
    keys: Vec<&'static str>,
}

impl Section<'_, '_> {
    /// The value of a key, if it was given and is good.
    pub(super) fn get<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Given) -> Result<T, Mismatch>,
    ) -> Option<T> {
        let given = self.take(key)?;
        self.interpret(key, &given, read)
    }

    /// The value of a key, or its default.
    pub(super) fn or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl Fn(&Given) -> Result<T, Mismatch>,
    ) -> T {
        self.get(key, read).unwrap_or(default)
    }

    /// The value of a key that is a list or a table, and therefore only ever in the file.
    pub(super) fn in_file<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Given) -> Result<T, Mismatch>,
    ) -> Option<T> {
        let given = self.take_from_file(key)?;
        let given = self.expanded(key, given)?;
        self.interpret(key, &given, read)
    }

    /// The value of a key that is a secret.
    pub(super) fn secret(&mut self, key: &'static str) -> Option<Secret> {
        let secret = self.get(key, super::value::secret)?;
        // Remembered even if its section turns out not to be in use: a secret remains one.
        self.reader.secrets.push(secret.clone());
        Some(secret)
    }

    /// Remembers secrets that were found inside a value.
    pub(super) fn hide(&mut self, secrets: impl IntoIterator<Item = Secret>) {
        self.reader.secrets.extend(secrets);
    }

    /// A variable that is not ours, if it is set.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.reader.environment.text(name).ok().flatten()
    }

    /// The value of a key, not interpreted yet, with `${NAME}` replaced.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Given> {
        self.keys.push(key);
        let in_file = self.entries.remove(key);
        let given = self.take_from_environment(key).or(in_file)?;
        self.expanded(key, given)
    }

    fn take_from_file(&mut self, key: &'static str) -> Option<Given> {
        self.keys.push(key);
        for variable in self.variables(key) {
            if self.reader.environment.names().any(|name| name == variable) {
                self.reader.problems.push(format!(
                    "{variable}: {}.{key} can only be set in the file; unset the variable",
                    self.name
                ));
            }
            self.reader.variables.push(variable);
        }
        self.entries.remove(key)
    }

    /// The value with `${NAME}` replaced; nothing if that leaves nothing.
    fn expanded(&mut self, key: &str, mut given: Given) -> Option<Given> {
        match given.expand(self.reader.environment) {
            Ok(used) => self.reader.secrets.extend(used),
            Err(problem) => {
                self.reader.problems.push(format!("{}: {}.{key} {problem}", given.origin, self.name));
                return None;
            }
        }
        (!given.is_blank()).then_some(given)
    }

    fn take_from_environment(&mut self, key: &str) -> Option<Given> {
        let mut found = None;
        for variable in self.variables(key) {
            match self.reader.environment.text(&variable) {
                Ok(Some(value)) if found.is_none() => {
                    found = Some(Given::from_variable(variable.clone(), value));
                }
                Ok(_) => {}
                Err(problem) => self.reader.problems.push(problem),
            }
            self.reader.variables.push(variable);
        }
        found
    }

    /// The variables of a key, the first that is set decides.
    fn variables(&self, key: &str) -> Vec<String> {
        let name = format!("{}_{key}", self.name).to_uppercase();
        match self.name {
            _ if self.item.is_some() => Vec::new(),
            // LiveKit's own tools call them so.
            "livekit" => vec![format!("SOTTO_{name}"), name],
            _ => vec![format!("SOTTO_{name}")],
        }
    }

    /// What a value means; a value that does not fit is a problem.
    pub(super) fn interpret<T>(
        &mut self,
        key: &str,
        given: &Given,
        read: impl Fn(&Given) -> Result<T, Mismatch>,
    ) -> Option<T> {
        let problem = match read(given) {
            Ok(value) => return Some(value),
            Err(Mismatch::Expected(expected)) => format!("is {} but must be {expected}", given.shown()),
            Err(Mismatch::Hidden(expected)) => format!("must be {expected}"),
        };
        self.problem(key, given, &problem);
        None
    }

    /// Notes that something is wrong with a value.
    pub(super) fn problem(&mut self, key: &str, given: &Given, problem: &str) {
        self.reader.problems.push(format!("{}: {}.{key} {problem}", given.origin, self.name));
    }

    /// Reads a list of tables, `[[section.key]]`; each is read like a section, from the file alone.
    pub(super) fn tables<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Section<'_, '_>) -> T,
    ) -> Vec<T> {
        let Some(given) = self.take_from_file(key) else { return Vec::new() };
        let items = match given.raw {
            Raw::List(items) => items,
            _ => vec![given],
        };
        let mut tables = Vec::new();
        for (number, item) in (1..).zip(items) {
            let name = format!("{}.{key} number {number}", self.name);
            let Raw::Table(entries) = item.raw else {
                self.reader.problems.push(format!(
                    "{}: {name} must be a table; write [[{}.{key}]] and its keys in the lines below",
                    item.origin, self.name
                ));
                continue;
            };
            tables.push(self.reader.table(&name, Some(&item.origin), entries, &mut read));
        }
        tables
    }

    /// Reads a table, `[section.key]`, like a section, from the file alone; nothing where it is not there.
    pub(super) fn table<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'_, '_>) -> T,
    ) -> Option<T> {
        let given = self.take_from_file(key).filter(|given| !given.is_blank())?;
        let name = format!("{}.{key}", self.name);
        let Raw::Table(entries) = given.raw else {
            let problem = format!("{name} must be a table; write [{name}] and its keys in the lines below");
            self.reader.problems.push(format!("{}: {problem}", given.origin));
            return None;
        };
        Some(self.reader.table(&name, Some(&given.origin), entries, read))
    }

    /// Where the file lies that has this table of a list.
    pub(super) fn directory(&self) -> &Path {
        self.item.map_or(Path::new(""), Origin::directory)
    }

    /// The value of a key that each table of a list must have.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Given) -> Result<T, Mismatch>,
    ) -> Option<T> {
        let Some(given) = self.take(key) else {
            self.refuse(&format!("has no {key}; add it"));
            return None;
        };
        self.interpret(key, &given, read)
    }

    /// Notes that something is wrong with the section as a whole.
    pub(super) fn refuse(&mut self, problem: &str) {
        let origin = self.item.map(|origin| format!("{origin}: ")).unwrap_or_default();
        self.reader.problems.push(format!("{origin}{} {problem}", self.name));
    }

    fn refuse_unknown_keys(self) {
        for (key, given) in self.entries {
            let hint = match closest(&key, self.keys.iter().copied()) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("the keys there are {}", self.keys.join(", ")),
            };
            self.reader.problems.push(format!("{}: {}.{key} is unknown; {hint}", given.origin, self.name));
        }
    }
}
