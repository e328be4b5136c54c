//! What clients do for tools: they are asked whether a call may be run, and run those that are for them. Each decides once, and runs
//! nothing twice, however often it is asked.

use super::client::Sent;
use super::model::number;
use super::schedule::{Event, Simulation};
use crate::engine::record::Record;
use crate::wire::body::{Body, ToolConsent, ToolConsentRequest, ToolUseRequest, ToolUseResult};
use serde_json::Value;

impl Simulation {
    /// Someone is asked for leave. Some never answer.
    pub(super) fn asked_for_leave(&mut self, client: usize, request: &ToolConsentRequest) {
        let decides = self.dice.percent(75);
        let allow = *self.clients[client].decided.entry(request.request_id.clone()).or_insert(decides);
        let name = self.clients[client].name;
        if !self.clients[client].lists("tool_consent") {
            return self.breaks(format!("{name} is asked and cannot be asked"));
        }
        if self.dice.percent(10) {
            return;
        }
        let (request_id, conversation_id) = (request.request_id.clone(), String::new());
        let leave = allow.then(|| number(&request.parameters));
        let body = Body::ToolConsent(ToolConsent { request_id, conversation_id, allow });
        self.reply(client, body, leave);
    }

    /// Someone's client is to run a tool. It does so at once, and says later how it went.
    pub(super) fn asked_to_run(&mut self, client: usize, request: &ToolUseRequest) {
        let begun = |record: &Record| matches!(record, Record::ToolBegun(tool) if tool.request == request.id);
        if !self.store.records().iter().any(begun) {
            let id = &request.id;
            return self.breaks(format!("{id} is handed to a client and not known to have begun"));
        }
        let goes_well = self.dice.percent(80);
        if !self.clients[client].ran.contains_key(&request.id) {
            self.model.run(&request.tool_name, &request.parameters, &request.message_id);
            self.clients[client].ran.insert(request.id.clone(), goes_well);
        }
        let success = self.clients[client].ran[&request.id];
        if self.dice.percent(10) {
            return;
        }
        let result = ToolUseResult {
            id: format!("of {}", request.id),
            request_id: request.id.clone(),
            conversation_id: String::new(),
            success,
            result: success.then(|| Value::from("done")),
            error_code: None,
            error_message: None,
        };
        self.reply(client, Body::ToolUseResult(result), None);
    }

    fn reply(&mut self, client: usize, body: Body, leave: Option<u64>) {
        let session = self.clients[client].session;
        let later = self.dice.between(1, 2_500);
        self.after(later, Event::Reply { client, session, body, leave });
    }

    /// A client says what it was asked, if it is still there.
    pub(super) fn replies(&mut self, client: usize, session: u32, body: Body, leave: Option<u64>) {
        let one = &self.clients[client];
        if !one.present || one.session != session {
            return;
        }
        let sent = match &body {
            Body::ToolConsent(consent) if consent.allow => Sent::Leave(consent.request_id.clone()),
            _ => Sent::Other,
        };
        self.model.allowed.extend(leave);
        self.client_sends(client, body, sent);
    }
}
