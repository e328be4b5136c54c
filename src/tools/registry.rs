//! Several sources of tools as one. What comes first keeps its name: no tool ever stands in another's place.

use crate::ports::{Progress, Tools};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, select_all};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Map, Value};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::tool::Tool;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// Tools of several sources; the earlier ones go before the later.
#[derive(Clone)]
pub struct Registry {
    sources: Vec<Arc<dyn Tools>>,
}

impl Registry {
    /// All the tools of these.
    pub fn new(sources: Vec<Arc<dyn Tools>>) -> Self {
        Self { sources }
    }
}

impl Tools for Registry {
    fn offered(&self) -> Vec<Tool> {
        let mut names = BTreeSet::new();
        let mut tools: Vec<_> = self.sources.iter().flat_map(|source| source.offered()).collect();
        tools.retain(|tool| {
            let is_new = names.insert(tool.spec.name.clone());
            if !is_new {
                warn!(tool = tool.spec.name, "a second tool of this name is not offered");
            }
            is_new
        });
        tools
    }

    fn has(&self, name: &str) -> bool {
        self.sources.iter().any(|source| source.has(name))
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        select_all(self.sources.iter().map(|source| source.changes())).boxed()
    }

    fn run(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Progress,
    ) -> BoxFuture<'static, ToolOutcome> {
        if let Some(source) = self.sources.iter().find(|source| source.has(name)) {
            return source.run(name, arguments, timeout, progress);
        }
        let names: Vec<_> = self.offered().into_iter().map(|tool| tool.spec.name).collect();
        let reason = format!("there is no tool {name:?}; there are: {}", names.join(", "));
        std::future::ready(ToolOutcome::Failed(reason)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use serde_json::json;
    use sotto_core::model::ToolSpec;
    use tokio::sync::watch;

    /// A source whose tools say which source they belong to.
    struct Listed {
        source: &'static str,
        names: watch::Receiver<Vec<&'static str>>,
    }

    fn listed(
        source: &'static str,
        names: &[&'static str],
    ) -> (watch::Sender<Vec<&'static str>>, Arc<dyn Tools>) {
        let (sender, names) = watch::channel(names.to_vec());
        (sender, Arc::new(Listed { source, names }))
    }

    impl Tools for Listed {
        fn offered(&self) -> Vec<Tool> {
            let spec = |name: &&str| ToolSpec {
                name: (*name).to_owned(),
                description: self.source.to_owned(),
                parameters: json!({}),
                repeatable: true,
            };
            self.names.borrow().iter().map(|name| Tool::harmless(spec(name))).collect()
        }

        fn changes(&self) -> BoxStream<'static, ()> {
            let next = |mut names: watch::Receiver<_>| async move {
                names.changed().await.ok().map(|()| ((), names))
            };
            stream::unfold(self.names.clone(), next).boxed()
        }

        fn run(
            &self,
            _: &str,
            _: Map<String, Value>,
            _: Duration,
            _: Progress,
        ) -> BoxFuture<'static, ToolOutcome> {
            std::future::ready(ToolOutcome::Done(self.source.into())).boxed()
        }
    }

    fn shown(registry: &Registry) -> Vec<(String, String)> {
        registry.offered().into_iter().map(|tool| (tool.spec.name, tool.spec.description)).collect()
    }

    async fn run(registry: &Registry, name: &str) -> ToolOutcome {
        registry.run(name, Map::new(), Duration::ZERO, Arc::new(|_| {})).await
    }

    #[tokio::test]
    async fn a_later_source_never_stands_in_for_an_earlier_one() {
        let (_one, first) = listed("first", &["a", "b"]);
        let (_two, second) = listed("second", &["b", "c"]);
        let registry = Registry::new(vec![first, second]);
        let pair = |name: &str, source: &str| (name.to_owned(), source.to_owned());
        assert_eq!(shown(&registry), [pair("a", "first"), pair("b", "first"), pair("c", "second")]);
        assert_eq!(run(&registry, "b").await, ToolOutcome::Done("first".into()));
        assert_eq!(run(&registry, "c").await, ToolOutcome::Done("second".into()));
    }

    #[tokio::test]
    async fn lists_change_while_it_runs_and_whoever_waits_is_told() {
        let (names, source) = listed("first", &["a"]);
        let (_two, other) = listed("second", &["c"]);
        let registry = Registry::new(vec![source, other]);
        let mut changes = registry.changes();
        assert_eq!(changes.next().now_or_never(), None, "nothing has changed");
        names.send_replace(vec!["b"]);
        assert_eq!(changes.next().await, Some(()));
        assert_eq!(run(&registry, "b").await, ToolOutcome::Done("first".into()));
        assert_eq!(
            run(&registry, "a").await,
            ToolOutcome::Failed("there is no tool \"a\"; there are: b, c".to_owned())
        );
    }

    #[tokio::test]
    async fn where_nothing_can_change_nobody_waits() {
        let registry = Registry::new(vec![Arc::new(crate::tools::BuiltIn::all())]);
        assert_eq!(registry.changes().next().await, None);
    }
}
