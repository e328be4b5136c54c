//! Where values come from: one TOML file and the environment. Each value keeps its origin, for messages.
//!
//! Nothing is interpreted here, except `${NAME}`, and that only for a value that is used.

use super::{ConfigError, Secret};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The environment: a copy, so that tests have their own.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The environment of this process.
    pub fn of_this_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value of a variable that is set and not blank.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(OsString::from(name).as_os_str()).map(|value| value.to_str()) {
            Some(Some(value)) if value.trim().is_empty() => Ok(None),
            Some(Some(value)) => Ok(Some(value.to_owned())),
            Some(None) => Err(format!("{name}: the environment variable is not valid UTF-8; set it anew")),
            None => Ok(None),
        }
    }

    fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(OsString::from(name).as_os_str())
    }

    /// The names of all variables.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|name| name.to_str())
    }
}

impl<Name: Into<OsString>, Content: Into<OsString>> FromIterator<(Name, Content)> for Environment {
    fn from_iter<I: IntoIterator<Item = (Name, Content)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Environment {
    /// Names only: any of the values may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where a value was written.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// In a line of the file.
    File { path: PathBuf, line: usize },
    /// In a variable of the environment.
    Variable(String),
}

impl Origin {
    /// Where relative paths begin: beside the file that has them.
    pub(super) fn directory(&self) -> &Path {
        match self {
            Self::File { path, .. } => path.parent().unwrap_or(Path::new("")),
            Self::Variable(_) => Path::new(""),
        }
    }

    pub(super) fn is_variable(&self) -> bool {
        matches!(self, Self::Variable(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "{name}"),
        }
    }
}

/// A value that somebody gave. It has no `Debug`, for it may hold a secret.
pub(super) struct Given {
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

pub(super) enum Raw {
    /// `written` is what stood in the file, where `${NAME}` made something else of it.
    Text {
        value: String,
        written: Option<String>,
    },
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<Given>),
    Table(BTreeMap<String, Given>),
    /// A date, or a number that is too large: nothing that a key could use.
    Other(String),
}

impl Given {
    pub(super) fn from_variable(name: String, value: String) -> Self {
        Self { raw: Raw::Text { value, written: None }, origin: Origin::Variable(name) }
    }

    pub(super) fn is_blank(&self) -> bool {
        matches!(&self.raw, Raw::Text { value, .. } if value.trim().is_empty())
    }

    /// The value as it was written, for a message.
    pub(super) fn shown(&self) -> String {
        const ENOUGH: usize = 60;
        match &self.raw {
            Raw::Text { value, written } => {
                let text = written.as_ref().unwrap_or(value);
                let ellipsis = if text.chars().nth(ENOUGH).is_some() { "…" } else { "" };
                format!("{:?}{ellipsis}", text.chars().take(ENOUGH).collect::<String>())
            }
            Raw::Integer(number) => number.to_string(),
            Raw::Float(number) => number.to_string(),
            Raw::Boolean(yes) => yes.to_string(),
            Raw::List(_) => "a list".to_owned(),
            Raw::Table(_) => "a table".to_owned(),
            Raw::Other(written) => written.clone(),
        }
    }

    /// Puts the values of variables in the place of `${NAME}` and returns those values. Only for what was in a file:
    /// the environment means what it says.
    pub(super) fn expand(&mut self, environment: &Environment) -> Result<Vec<Secret>, String> {
        match &mut self.raw {
            Raw::Text { value, written } if !self.origin.is_variable() && value.contains("${") => {
                let (expanded, used) = expand(value, environment)?;
                *written = Some(std::mem::replace(value, expanded));
                Ok(used)
            }
            Raw::List(items) => expand_all(items.iter_mut(), environment),
            Raw::Table(entries) => expand_all(entries.values_mut(), environment),
            _ => Ok(Vec::new()),
        }
    }
}

fn expand_all<'a>(
    values: impl Iterator<Item = &'a mut Given>,
    environment: &Environment,
) -> Result<Vec<Secret>, String> {
    let mut used = Vec::new();
    for value in values {
        used.extend(value.expand(environment)?);
    }
    Ok(used)
}

/// The text with the variables' values in it, and those values.
fn expand(text: &str, environment: &Environment) -> Result<(String, Vec<Secret>), String> {
    let mut expanded = String::new();
    let mut used = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let (name, after) = after.split_once('}').filter(|(name, _)| is_variable_name(name)).ok_or(
            "has a ${ that is not followed by the name of an environment variable and a }; write $${ for ${ itself",
        )?;
        // Set but blank is an answer here (there is no key, say); not set at all is probably a slip.
        if !environment.is_set(name) {
            return Err(format!(
                "needs the environment variable {name}, which is not set; set it, or leave the key out"
            ));
        }
        if let Some(value) = environment.text(name)? {
            expanded.push_str(&value);
            used.push(Secret::new(value.trim()));
        }
        rest = after;
    }
    expanded.push_str(rest);
    Ok((expanded, used))
}

fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A configuration file, read but not understood yet.
pub(super) struct File {
    /// What stands at the top level: the sections, if all is well.
    pub(super) entries: BTreeMap<String, Given>,
}

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!(
                "{}: cannot read the configuration file: {error}; name another with --config",
                path.display()
            )
        })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let at = |offset: usize| Origin::File {
            path: path.to_owned(),
            line: 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count(),
        };
        // The message alone: the parser's whole report quotes the line, which may hold a secret.
        let table = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            format!("{}: this line is not TOML: {}", at(start), error.message())
        })?;
        Ok(Self { entries: entries(table.into_inner(), &at) })
    }
}

fn entries(table: DeTable<'_>, at: &impl Fn(usize) -> Origin) -> BTreeMap<String, Given> {
    table.into_iter().map(|(key, value)| (key.into_inner().into_owned(), given(value, at))).collect()
}

fn given(value: Spanned<DeValue<'_>>, at: &impl Fn(usize) -> Origin) -> Given {
    let origin = at(value.span().start);
    let raw = match value.into_inner() {
        DeValue::String(text) => Raw::Text { value: text.into_owned(), written: None },
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Raw::Other(number.to_string()), Raw::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Raw::Other(number.to_string()), Raw::Float)
        }
        DeValue::Boolean(yes) => Raw::Boolean(yes),
        DeValue::Datetime(date) => Raw::Other(date.to_string()),
        DeValue::Array(items) => Raw::List(items.into_iter().map(|item| given(item, at)).collect()),
        DeValue::Table(table) => Raw::Table(entries(table, at)),
    };
    Given { raw, origin }
}
