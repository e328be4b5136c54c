//! What is sent: a [`Prompt`] becomes the JSON body of an OpenAI-style chat completion.
//!
//! Keys have a fixed order and the messages come last, so that a longer conversation begins with the very bytes of the
//! shorter one. Builds values only; never decides what is asked, nor when.

use super::style::Generation;
use super::{Message, Prompt, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

/// How one endpoint wants to be asked.
#[derive(Clone, Debug, Default)]
pub struct RequestOptions {
    /// The model's name at the endpoint.
    pub model: String,
    /// How the endpoint is told whether to think.
    pub switch: Switch,
    /// How hard to think (`low`, `medium`, `high`), where the switch can say so.
    pub effort: Option<String>,
    /// How many tokens to think, where the switch can say so.
    pub thinking_budget: Option<u64>,
    /// In place of the model's own defaults.
    pub sampling: Sampling,
    /// How many tokens to write at most, thinking included.
    pub max_tokens: Option<u64>,
    /// Further fields of the body; they win over ours, and objects are merged. What the parser relies on stays:
    /// `messages`, `tools`, `stream`.
    pub extra: Map<String, Value>,
}

/// How an endpoint is told whether to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// `chat_template_kwargs.enable_thinking`: vLLM, `SGLang`, llama.cpp.
    #[default]
    TemplateKwargs,
    /// `enable_thinking` in the body itself: `DashScope`.
    TopLevel,
    /// `reasoning_effort`: Ollama, `OpenAI`.
    Effort,
    /// `reasoning: {…}`: `OpenRouter`.
    OpenRouter,
    /// Not at all.
    None,
}

/// How the next token is drawn. What is absent is left to the model's defaults or, where we know none, to the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Higher is wilder; zero makes Qwen3 repeat itself for ever.
    pub temperature: Option<f64>,
    /// Only from the likeliest tokens that make up this share.
    pub top_p: Option<f64>,
    /// Only from so many of the likeliest tokens.
    pub top_k: Option<u64>,
}

impl Sampling {
    /// What the makers of Qwen3 recommend; nothing for other models, whose endpoints know better.
    pub fn recommended(model: &str, thinking: bool) -> Self {
        let (temperature, top_p) = match (Generation::of(model), thinking) {
            (Generation::Other, _) => return Self::default(),
            (_, false) => (0.7, 0.8),
            (Generation::Qwen3, true) => (0.6, 0.95),
            (Generation::Qwen35, true) => (1.0, 0.95),
        };
        Self { temperature: Some(temperature), top_p: Some(top_p), top_k: Some(20) }
    }
}

/// The body of the request.
pub fn body(prompt: &Prompt, options: &RequestOptions) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), options.model.clone().into());
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    insert_sampling(&mut body, prompt.thinking, options);
    if let Some(max_tokens) = options.max_tokens {
        body.insert("max_tokens".to_owned(), max_tokens.into());
    }
    merge(&mut body, switch_fields(prompt.thinking, options));
    merge(&mut body, options.extra.clone());
    // Removed and added again: they have their place in the order, whatever `extra` says.
    for ours in ["stream", "tools", "messages"] {
        body.shift_remove(ours);
    }
    body.insert("stream".to_owned(), true.into());
    if !prompt.tools.is_empty() {
        body.insert("tools".to_owned(), prompt.tools.iter().map(tool).collect());
    }
    body.insert("messages".to_owned(), prompt.messages.iter().map(message).collect());
    Value::Object(body)
}

fn insert_sampling(body: &mut Map<String, Value>, thinking: bool, options: &RequestOptions) {
    let recommended = Sampling::recommended(&options.model, thinking);
    let own = options.sampling;
    if let Some(temperature) = own.temperature.or(recommended.temperature) {
        body.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(top_p) = own.top_p.or(recommended.top_p) {
        body.insert("top_p".to_owned(), top_p.into());
    }
    if let Some(top_k) = own.top_k.or(recommended.top_k) {
        body.insert("top_k".to_owned(), top_k.into());
    }
}

fn switch_fields(thinking: bool, options: &RequestOptions) -> Map<String, Value> {
    let budget = options.thinking_budget.filter(|_| thinking);
    let effort = options.effort.as_deref().filter(|_| thinking);
    let mut fields = Map::new();
    match options.switch {
        Switch::TemplateKwargs => {
            let mut kwargs = Map::new();
            kwargs.insert("enable_thinking".to_owned(), thinking.into());
            if let Some(budget) = budget {
                // SGLang, vLLM and llama.cpp, each by its own name; each ignores the others'.
                kwargs.insert("thinking_budget".to_owned(), budget.into());
                fields.insert("thinking_token_budget".to_owned(), budget.into());
                fields.insert("thinking_budget_tokens".to_owned(), budget.into());
            }
            fields.insert("chat_template_kwargs".to_owned(), kwargs.into());
            if let Some(effort) = effort {
                fields.insert("reasoning_effort".to_owned(), effort.into());
            }
        }
        Switch::TopLevel => {
            fields.insert("enable_thinking".to_owned(), thinking.into());
            if let Some(budget) = budget {
                fields.insert("thinking_budget".to_owned(), budget.into());
            }
        }
        Switch::Effort => {
            let effort = if thinking { effort.unwrap_or("medium") } else { "none" };
            fields.insert("reasoning_effort".to_owned(), effort.into());
        }
        Switch::OpenRouter => {
            // Of budget and effort it takes one.
            let reasoning = match (budget, effort) {
                (Some(budget), _) => json!({"enabled": true, "max_tokens": budget}),
                (None, Some(effort)) => json!({"enabled": true, "effort": effort}),
                (None, None) => json!({"enabled": thinking}),
            };
            fields.insert("reasoning".to_owned(), reasoning);
        }
        Switch::None => {}
    }
    fields
}

/// Adds fields; where both sides have an object, its fields.
fn merge(into: &mut Map<String, Value>, fields: Map<String, Value>) {
    for (key, value) in fields {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => merge(inner, value),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    })
}

/// A message, as endpoints read it.
pub fn message(message: &Message) -> Value {
    match message {
        Message::System(content) => json!({"role": "system", "content": content}),
        Message::User(content) => json!({"role": "user", "content": content}),
        Message::Tool { call, content } => json!({"role": "tool", "tool_call_id": call, "content": content}),
        Message::Assistant { text, reasoning, calls } => {
            let mut message = Map::new();
            message.insert("role".to_owned(), "assistant".into());
            if let Some(reasoning) = reasoning {
                message.insert("reasoning_content".to_owned(), reasoning.clone().into());
            }
            // Never null: some templates fail on it.
            message.insert("content".to_owned(), text.clone().into());
            if !calls.is_empty() {
                message.insert("tool_calls".to_owned(), calls.iter().map(tool_call).collect());
            }
            Value::Object(message)
        }
    }
}

fn tool_call(call: &ToolCall) -> Value {
    // Templates read the arguments, and fail on what is no JSON: what could not be read is not sent back.
    let arguments = call
        .arguments
        .as_ref()
        .map_or_else(|_| "{}".to_owned(), |arguments| Value::Object(arguments.clone()).to_string());
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(thinking: bool) -> Prompt {
        Prompt { messages: vec![Message::User("Hi".to_owned())], tools: Vec::new(), thinking }
    }

    fn options(model: &str) -> RequestOptions {
        RequestOptions { model: model.to_owned(), ..RequestOptions::default() }
    }

    #[test]
    fn a_whole_conversation() {
        let prompt = Prompt {
            messages: vec![
                Message::System("Be kind.".to_owned()),
                Message::User("Weather?".to_owned()),
                Message::Assistant {
                    text: String::new(),
                    reasoning: Some("I look.".to_owned()),
                    calls: vec![
                        ToolCall {
                            id: "a".to_owned(),
                            name: "weather".to_owned(),
                            arguments: Ok(Map::from_iter([("city".to_owned(), json!("Oslo"))])),
                        },
                        ToolCall {
                            id: "b".to_owned(),
                            name: "time".to_owned(),
                            arguments: Err("{\"zo".to_owned()),
                        },
                    ],
                },
                Message::Tool { call: "a".to_owned(), content: "Rain".to_owned() },
                Message::Assistant { text: "Rain.".to_owned(), reasoning: None, calls: Vec::new() },
            ],
            tools: vec![ToolSpec {
                name: "weather".to_owned(),
                description: "Weather of a city".to_owned(),
                repeatable: true,
                parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
            }],
            thinking: true,
        };
        let options = RequestOptions { max_tokens: Some(500), ..options("Qwen/Qwen3-8B") };
        let expected = concat!(
            r#"{"model":"Qwen/Qwen3-8B","stream_options":{"include_usage":true},"temperature":0.6,"top_p":0.95,"#,
            r#""top_k":20,"max_tokens":500,"chat_template_kwargs":{"enable_thinking":true},"stream":true,"#,
            r#""tools":[{"type":"function","function":{"name":"weather","description":"Weather of a city","#,
            r#""parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],"messages":["#,
            r#"{"role":"system","content":"Be kind."},{"role":"user","content":"Weather?"},"#,
            r#"{"role":"assistant","reasoning_content":"I look.","content":"","tool_calls":["#,
            r#"{"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}},"#,
            r#"{"id":"b","type":"function","function":{"name":"time","arguments":"{}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"a","content":"Rain"},{"role":"assistant","content":"Rain."}]}"#,
        );
        assert_eq!(body(&prompt, &options).to_string(), expected);
    }

    #[test]
    fn a_longer_conversation_begins_with_the_bytes_of_the_shorter() {
        let shorter = prompt(true);
        let mut longer = shorter.clone();
        longer.messages.push(Message::User("Still there?".to_owned()));
        let [shorter, longer] = [shorter, longer].map(|prompt| body(&prompt, &options("qwen3")).to_string());
        assert!(longer.starts_with(shorter.strip_suffix("]}").expect("the messages are last")));
    }

    #[test]
    fn each_switch_in_its_own_words() {
        let cases = [
            (Switch::TemplateKwargs, true, json!({"chat_template_kwargs": {"enable_thinking": true}})),
            (Switch::TemplateKwargs, false, json!({"chat_template_kwargs": {"enable_thinking": false}})),
            (Switch::TopLevel, true, json!({"enable_thinking": true})),
            (Switch::TopLevel, false, json!({"enable_thinking": false})),
            (Switch::Effort, true, json!({"reasoning_effort": "medium"})),
            (Switch::Effort, false, json!({"reasoning_effort": "none"})),
            (Switch::OpenRouter, true, json!({"reasoning": {"enabled": true}})),
            (Switch::OpenRouter, false, json!({"reasoning": {"enabled": false}})),
            (Switch::None, true, json!({})),
        ];
        for (switch, thinking, fields) in cases {
            let options = RequestOptions { switch, ..RequestOptions::default() };
            assert_eq!(Value::Object(switch_fields(thinking, &options)), fields, "{switch:?} {thinking}");
        }
    }

    #[test]
    fn budget_and_effort_go_where_the_switch_can_say_them() {
        let cases = [
            (
                Switch::TemplateKwargs,
                json!({
                    "thinking_token_budget": 100, "thinking_budget_tokens": 100, "reasoning_effort": "high",
                    "chat_template_kwargs": {"enable_thinking": true, "thinking_budget": 100},
                }),
            ),
            (Switch::TopLevel, json!({"enable_thinking": true, "thinking_budget": 100})),
            (Switch::Effort, json!({"reasoning_effort": "high"})),
            (Switch::OpenRouter, json!({"reasoning": {"enabled": true, "max_tokens": 100}})),
            (Switch::None, json!({})),
        ];
        for (switch, fields) in cases {
            let options = RequestOptions {
                switch,
                effort: Some("high".to_owned()),
                thinking_budget: Some(100),
                ..RequestOptions::default()
            };
            assert_eq!(Value::Object(switch_fields(true, &options)), fields, "{switch:?}");
            let off = switch_fields(false, &options);
            assert!(
                !Value::Object(off).to_string().contains("100"),
                "no budget without thinking: {switch:?}"
            );
        }
    }

    #[test]
    fn sampling_follows_the_model_unless_it_is_set() {
        let drawn = |model: &str, thinking| {
            let body = body(&prompt(thinking), &options(model));
            [body["temperature"].as_f64(), body["top_p"].as_f64(), body["top_k"].as_f64()]
        };
        assert_eq!(drawn("Qwen/Qwen3-32B", true), [Some(0.6), Some(0.95), Some(20.0)]);
        assert_eq!(drawn("Qwen/Qwen3-32B", false), [Some(0.7), Some(0.8), Some(20.0)]);
        assert_eq!(drawn("qwen3.5:9b", true), [Some(1.0), Some(0.95), Some(20.0)]);
        assert_eq!(drawn("qwen3.6-27b", false), [Some(0.7), Some(0.8), Some(20.0)]);
        assert_eq!(drawn("smollm2", false), [None; 3]);

        let sampling = Sampling { temperature: Some(0.3), top_k: Some(5), ..Sampling::default() };
        let set = body(&prompt(true), &RequestOptions { sampling, ..options("qwen3") });
        assert_eq!(
            [&set["temperature"], &set["top_p"], &set["top_k"]],
            [&json!(0.3), &json!(0.95), &json!(5)]
        );
    }

    #[test]
    fn extra_fields_win_but_for_what_the_parser_relies_on() {
        let Value::Object(extra) = json!({
            "temperature": 0.1, "seed": 7, "stream": false, "messages": [], "tools": [1],
            "chat_template_kwargs": {"custom": 1}, "stream_options": {"include_usage": false},
        }) else {
            unreachable!("an object is written here")
        };
        let body = body(&prompt(true), &RequestOptions { extra, ..options("qwen3") });
        assert_eq!(body["temperature"], json!(0.1));
        assert_eq!(body["seed"], json!(7));
        assert_eq!(body["stream_options"], json!({"include_usage": false}));
        assert_eq!(body["chat_template_kwargs"], json!({"enable_thinking": true, "custom": 1}));
        assert_eq!(body["stream"], json!(true));
        assert_eq!(body.get("tools"), None);
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(1));
        let last = body.as_object().and_then(|body| body.keys().next_back());
        assert_eq!(last.map(String::as_str), Some("messages"));
    }
}
