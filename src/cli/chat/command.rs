//! What a line that somebody typed means.

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Nothing: an empty line.
    Nothing,
    /// Say this.
    Say(String),
    /// Answer the last message again.
    Again,
    /// Put this in place of the last message.
    Edit(String),
    /// Go on with the last answer.
    Continue,
    /// Let the agent use the tool that it asks for.
    Allow,
    /// Do not.
    Deny,
    /// Stop answering.
    Stop,
    /// Tell what there is.
    Help,
    /// Leave.
    Quit,
    /// Not understood; why.
    Unclear(String),
}

pub(super) const HELP: &str = "\
/again       answer my last message again
/edit TEXT   put TEXT in place of my last message
/continue    go on with the last answer
/allow       let the agent use the tool that it asks for
/deny        do not
/stop        stop answering (as Ctrl-C does)
/quit        leave (as Ctrl-D does, or Ctrl-C when nothing is running)
//TEXT       say something that begins with a slash
Anything else is said to the agent; while it answers, that interrupts it.";

impl Command {
    pub(super) fn parse(line: &str) -> Self {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else {
            return if line.is_empty() { Self::Nothing } else { Self::Say(line.to_owned()) };
        };
        if command.starts_with('/') {
            return Self::Say(command.to_owned());
        }
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match (name, rest) {
            ("edit", "") => Self::Unclear("/edit needs the new text: /edit TEXT".to_owned()),
            ("edit", text) => Self::Edit(text.to_owned()),
            ("again", "") => Self::Again,
            ("continue", "") => Self::Continue,
            ("allow", "") => Self::Allow,
            ("deny", "") => Self::Deny,
            ("stop", "") => Self::Stop,
            ("help", "") => Self::Help,
            ("quit" | "exit", "") => Self::Quit,
            ("again" | "continue" | "allow" | "deny" | "stop" | "help" | "quit" | "exit", _) => {
                Self::Unclear(format!("/{name} takes nothing after it"))
            }
            _ => Self::Unclear(format!(
                "there is no command /{name}; /help lists them, and //{name} says it to the agent"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_without_the_space_around_it() {
        assert_eq!(Command::parse("  Hello there \r"), Command::Say("Hello there".to_owned()));
        assert_eq!(Command::parse(" \t"), Command::Nothing);
    }

    #[test]
    fn commands_begin_with_a_slash() {
        let commands =
            ["/again", "/continue", "/allow", "/deny", "/stop", "/help", "/quit"].map(Command::parse);
        assert_eq!(
            commands,
            [
                Command::Again,
                Command::Continue,
                Command::Allow,
                Command::Deny,
                Command::Stop,
                Command::Help,
                Command::Quit
            ]
        );
        assert_eq!(Command::parse("/edit  What is it? "), Command::Edit("What is it?".to_owned()));
    }

    #[test]
    fn two_slashes_say_something_that_begins_with_one() {
        assert_eq!(Command::parse("//etc/hosts is what?"), Command::Say("/etc/hosts is what?".to_owned()));
    }

    #[test]
    fn what_is_not_understood_is_explained_and_not_said() {
        for (line, explained) in [
            ("/agian", "no command /agian"),
            ("/", "no command /"),
            ("/edit", "/edit TEXT"),
            ("/again please", "takes nothing"),
        ] {
            let Command::Unclear(why) = Command::parse(line) else { panic!("{line} was understood") };
            assert!(why.contains(explained), "{why}");
        }
    }
}
