//! What the server says of people, as far as they cannot have said it themselves: rights may depend on it. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Name and value of each.
pub(super) type Attributes = Vec<(String, String)>;

#[derive(Debug, Default)]
pub(super) struct Described {
    /// What was told of whom.
    told: BTreeMap<String, Attributes>,
    /// Those who could once change what is said of them.
    by_themselves: BTreeSet<String>,
}

impl Described {
    /// What is to be told of someone, if it is news: the first time also that there is nothing. `may_change` is whether that one may
    /// change it now; unknown is as good as yes, for now.
    pub(super) fn news(
        &mut self,
        identity: &str,
        may_change: Option<bool>,
        attributes: HashMap<String, String>,
    ) -> Option<Attributes> {
        if may_change == Some(true) {
            // What it set while it could is not to be trusted later either.
            self.by_themselves.insert(identity.to_owned());
        }
        let is_fixed = may_change == Some(false) && !self.by_themselves.contains(identity);
        let mut attributes: Attributes = attributes.into_iter().filter(|_| is_fixed).collect();
        attributes.sort_unstable();
        let is_news = match self.told.get(identity) {
            Some(told) => *told != attributes,
            None => may_change.is_some(),
        };
        if !is_news {
            return None;
        }
        self.told.insert(identity.to_owned(), attributes.clone());
        Some(attributes)
    }

    pub(super) fn forget(&mut self, identity: &str) {
        self.told.remove(identity);
        self.by_themselves.remove(identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin() -> HashMap<String, String> {
        HashMap::from([("role".to_owned(), "admin".to_owned())])
    }

    #[test]
    fn what_its_owner_cannot_change_is_told_once_and_when_it_changes() {
        let mut described = Described::default();
        assert_eq!(described.news("alice", Some(false), HashMap::new()), Some(Vec::new()));
        assert_eq!(described.news("alice", Some(false), HashMap::new()), None);
        let told = Some(vec![("role".to_owned(), "admin".to_owned())]);
        assert_eq!(described.news("alice", Some(false), admin()), told);
        assert_eq!(described.news("alice", Some(false), admin()), None);
        assert_eq!(described.news("alice", Some(false), HashMap::new()), Some(Vec::new()));
    }

    #[test]
    fn whoever_could_once_say_it_itself_is_not_believed_until_it_has_left() {
        let mut described = Described::default();
        assert_eq!(described.news("bob", None, admin()), None);
        assert_eq!(described.news("bob", Some(true), admin()), Some(Vec::new()));
        assert_eq!(described.news("bob", Some(false), admin()), None);
        described.forget("bob");
        assert!(described.news("bob", Some(false), admin()).is_some());
    }

    #[test]
    fn a_right_that_is_withdrawn_is_told() {
        let mut described = Described::default();
        assert!(described.news("carol", Some(false), admin()).is_some());
        assert_eq!(described.news("carol", Some(true), admin()), Some(Vec::new()));
    }
}
