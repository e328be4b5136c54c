//! The figures, as they come in and as a table at the end.

use serde_json::json;

/// All figures of a run.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

struct Row {
    what: String,
    value: f64,
    unit: &'static str,
    target: Target,
}

/// What the project wants of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// Nothing: it explains another.
    None,
    AtMost(f64),
    AtLeast(f64),
}

impl Report {
    /// One figure, told at once and again at the end.
    pub(crate) fn add(&mut self, what: impl Into<String>, value: f64, unit: &'static str, target: Target) {
        let row = Row { what: what.into(), value, unit, target };
        progress(&row.line());
        self.rows.push(row);
    }

    /// For people.
    pub(crate) fn print_table(&self) {
        println!("\nProfile: {}. Every ratio is of one run; all times are of this machine.\n", profile());
        for row in &self.rows {
            println!("{}", row.line());
        }
    }

    /// For scripts, a line for each figure.
    pub(crate) fn print_json(&self) {
        for Row { what, value, unit, target } in &self.rows {
            let (at_most, at_least) = match target {
                Target::None => (None, None),
                Target::AtMost(limit) => (Some(limit), None),
                Target::AtLeast(limit) => (None, Some(limit)),
            };
            let line = json!({
                "bench": "turn", "profile": profile(), "what": what, "value": value, "unit": unit,
                "at_most": at_most, "at_least": at_least, "met": target.is_met(*value)
            });
            println!("{line}");
        }
    }
}

impl Row {
    fn line(&self) -> String {
        let Self { what, value, unit, target } = self;
        let wanted = match target {
            Target::None => String::new(),
            Target::AtMost(limit) => format!("wanted: at most {limit} {unit}"),
            Target::AtLeast(limit) => format!("wanted: at least {limit} {unit}"),
        };
        let verdict = match target.is_met(*value) {
            None => "",
            Some(true) => ", met",
            Some(false) => ", MISSED",
        };
        format!("{what:<72} {value:>10.2} {unit:<14} {wanted}{verdict}")
    }
}

impl Target {
    /// No verdict where there can be none.
    pub(crate) fn only_if(self, can_be_judged: bool) -> Self {
        if can_be_judged { self } else { Self::None }
    }

    fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Self::None => None,
            Self::AtMost(limit) => Some(value <= limit),
            Self::AtLeast(limit) => Some(value >= limit),
        }
    }
}

/// Tells how far it is.
pub(crate) fn progress(what: &str) {
    eprintln!("   {what}");
}

fn profile() -> &'static str {
    if cfg!(debug_assertions) { "dev (dependencies optimised, our own code not)" } else { "release" }
}
