//! What a server tells us by itself: that its list has changed, and how far a call is. What it asks of us is refused: it gets neither the model (sampling) nor the user (elicitation), and we have no files for it (roots).

use super::content;
use crate::ports::Progress;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
    ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tracing::info;

/// One server's.
pub(super) struct Listener {
    server: String,
    /// Rings when the list should be read again.
    pub(super) list_again: Notify,
    /// Who wants to know how far a call is.
    running: Mutex<HashMap<ProgressToken, Progress>>,
}

impl Listener {
    pub(super) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), list_again: Notify::new(), running: Mutex::default() }
    }

    pub(super) fn follow(&self, token: ProgressToken, progress: Progress) {
        self.running().insert(token, progress);
    }

    pub(super) fn forget(&self, token: &ProgressToken) {
        self.running().remove(token);
    }

    fn running(&self) -> MutexGuard<'_, HashMap<ProgressToken, Progress>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("sotto", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_again.notify_one();
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let progress = self.running().get(&told.progress_token).cloned();
        if let Some(progress) = progress {
            progress(content::progress(&told));
        }
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        info!(server = self.server, "a server wanted to ask the user something, which is refused");
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }
}
