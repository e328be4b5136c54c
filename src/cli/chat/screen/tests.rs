use super::*;
use serde_json::{Map, Value, json};
use sotto_core::wire::body::{AssistantMessage, AssistantSentence, StartAnswer};

const EYES: Style = Style::Terminal { colour: true };
const GREY: Style = Style::Terminal { colour: false };

fn id(id: &str) -> String {
    id.to_owned()
}

fn delta(step: &str, text: &str) -> Body {
    let delta = ReasoningDelta {
        id: id(step),
        previous_id: id("m1"),
        conversation_id: id("room"),
        step_index: 1,
        delta: text.to_owned(),
    };
    Body::ReasoningDelta(delta)
}

fn step(step: &str, text: &str) -> Body {
    let step = ReasoningStep {
        id: id(step),
        conversation_id: id("room"),
        previous_id: id("m1"),
        content: text.to_owned(),
        step_index: 1,
        total_steps: None,
    };
    Body::ReasoningStep(step)
}

fn request(request: &str, tool: &str, parameters: Value) -> Body {
    let Value::Object(parameters) = parameters else { panic!("parameters are a map") };
    Body::ToolUseRequest(ToolUseRequest {
        id: id(request),
        message_id: id("m1"),
        conversation_id: id("room"),
        tool_name: tool.to_owned(),
        parameters,
        execution: sotto_core::wire::body::Execution::Server,
        timeout_ms: None,
    })
}

fn result(request: &str, result: Result<Value, &str>) -> Body {
    Body::ToolUseResult(ToolUseResult {
        id: id("atr_1"),
        request_id: id(request),
        conversation_id: id("room"),
        success: result.is_ok(),
        error_code: result.as_ref().err().map(|_| id("execution_error")),
        error_message: result.as_ref().err().map(|why| (*why).to_owned()),
        result: result.ok(),
    })
}

fn start() -> Body {
    Body::StartAnswer(StartAnswer {
        id: id("a1"),
        previous_id: id("m1"),
        conversation_id: id("room"),
        answer_type: None,
        planned_sentence_count: None,
    })
}

fn sentence(text: &str, is_final: bool) -> Body {
    Body::AssistantSentence(AssistantSentence {
        id: None,
        previous_id: id("a1"),
        conversation_id: id("room"),
        sequence: 1,
        text: text.to_owned(),
        is_final: Some(is_final),
        audio: None,
    })
}

fn error(severity: i32, message: &str) -> Body {
    Body::ErrorMessage(ErrorMessage {
        id: id("err_1"),
        conversation_id: id("room"),
        code: 503,
        message: message.to_owned(),
        severity,
        recoverable: true,
        originating_id: None,
    })
}

fn meta() -> TurnMeta {
    TurnMeta {
        message_id: id("m1"),
        conversation_id: id("room"),
        answer_id: Some(id("a1")),
        input_tokens: Some(20),
        output_tokens: Some(30),
        reasoning_tokens: Some(12),
        exact: true,
        effort: None,
        thinking_ms: 3_000,
        total_ms: 4_250,
        interrupted: false,
    }
}

/// Shows a question and then each message a second after the one before it.
fn show(style: Style, reasoning: bool, messages: &[Body]) -> String {
    let mut screen = Screen::new(style, reasoning);
    let mut out = screen.ask("Why?", style == EYES || style == GREY, Duration::ZERO);
    for (second, body) in (1..).zip(messages) {
        let envelope = Envelope { stanza: -1, conversation: None, meta: Map::new(), body: body.clone() };
        out += &screen.receive(&envelope, Duration::from_secs(second));
    }
    out
}

fn exchange() -> Vec<Body> {
    vec![
        delta("s1", "Multi"),
        delta("s1", "ply."),
        step("s1", "Multiply."),
        request("r1", "calculator", json!({"expression": "12*7"})),
        result("r1", Ok(json!(84))),
        step("s2", "It is\n\n84."),
        start(),
        sentence("It is 84.", false),
        sentence(" Anything else?", false),
        sentence("", true),
        Body::TurnMeta(meta()),
    ]
}

#[test]
fn for_eyes_thoughts_are_dim_and_live_and_figures_come_last() {
    let expected = concat!(
        "\x1b[2mMulti\x1b[0m\x1b[2mply.\x1b[0m\n",
        "\x1b[2mthought for 4 s\x1b[0m\n",
        "\x1b[2m* calculator {\"expression\":\"12*7\"}\x1b[0m\x1b[2m → 84\x1b[0m\n",
        "\x1b[2mIt is\n\n84.\x1b[0m\n",
        "\x1b[2mthought for 2 s\x1b[0m\n",
        "It is 84. Anything else?\n",
        "\x1b[2m20 tokens in, 30 out (12 of them thinking), 4.2 s\x1b[0m\n",
    );
    assert_eq!(show(EYES, true, &exchange()), expected);
}

#[test]
fn without_colour_there_are_no_escape_codes() {
    let coloured = show(EYES, true, &exchange());
    assert_eq!(show(GREY, true, &exchange()), coloured.replace("\x1b[2m", "").replace("\x1b[0m", ""));
}

#[test]
fn for_pipes_each_line_says_what_it_is() {
    let expected = concat!(
        "> Why?\n",
        "thinking: Multiply.\n",
        "tool: calculator {\"expression\":\"12*7\"} → 84\n",
        "thinking: It is\n",
        "thinking: 84.\n",
        "It is 84. Anything else?\n",
    );
    assert_eq!(show(Style::Plain, true, &exchange()), expected);
}

#[test]
fn thoughts_can_be_left_out() {
    let eyes = show(GREY, false, &exchange());
    assert!(eyes.starts_with("thought for 4 s\n* calculator"), "{eyes}");
    assert!(!eyes.contains("Multiply"), "{eyes}");
    let plain = show(Style::Plain, false, &exchange());
    assert_eq!(plain, "> Why?\ntool: calculator {\"expression\":\"12*7\"} → 84\nIt is 84. Anything else?\n");
}

#[test]
fn for_scripts_each_message_is_a_line_and_nothing_else_is() {
    let shown = show(Style::Json, true, &exchange());
    let types: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["type"].clone())
        .collect();
    assert_eq!(types.len(), exchange().len());
    assert_eq!((&types[0], &types[10]), (&json!("ReasoningDelta"), &json!("TurnMeta")));
}

#[test]
fn a_sentence_is_shown_when_it_comes() {
    let mut screen = Screen::new(Style::Plain, true);
    let mut receive = |body| {
        let envelope = Envelope { stanza: -1, conversation: None, meta: Map::new(), body };
        screen.receive(&envelope, Duration::ZERO)
    };
    assert_eq!(receive(start()), "");
    assert_eq!(receive(sentence("One.", false)), "One.");
    assert_eq!(receive(sentence(" Two.", true)), " Two.\n");
}

#[test]
fn an_answer_goes_on_after_a_tool_without_a_gap() {
    let messages = [
        start(),
        sentence("Let me see.", false),
        request("r1", "time", json!({})),
        result("r1", Ok(json!("noon"))),
        sentence("\n\nIt is noon.", true),
    ];
    let expected = "> Why?\nLet me see.\ntool: time {} → noon\nIt is noon.\n";
    assert_eq!(show(Style::Plain, true, &messages), expected);
}

#[test]
fn results_find_their_tools() {
    let messages = [
        request("r1", "time", json!({})),
        request("r2", "calculator", json!({"expression": "1/0"})),
        result("r1", Ok(json!({"time": "noon"}))),
        result("r2", Err("Division by zero.")),
        result("r9", Ok(json!("whose?"))),
    ];
    let expected = concat!(
        "> Why?\n",
        "tool: time {}\n",
        "tool: calculator {\"expression\":\"1/0\"}\n",
        "tool: time → {\"time\":\"noon\"}\n",
        "tool: calculator failed: Division by zero.\n",
    );
    assert_eq!(show(Style::Plain, true, &messages), expected);
}

#[test]
fn a_thought_that_came_in_part_is_completed() {
    let messages =
        [delta("s1", "It may "), step("s1", "It may rain."), delta("s2", "Or"), step("s2", "Or not.")];
    assert_eq!(show(GREY, true, &messages), "It may rain.\nOr not.\n");
}

#[test]
fn a_thought_in_other_words_than_were_shown_is_shown_whole() {
    let messages = [delta("s1", "The key is abc"), step("s1", "The key is [hidden].")];
    assert_eq!(show(GREY, true, &messages), "The key is abc\nThe key is [hidden].\n");
}

#[test]
fn errors_are_told_in_words_and_on_a_line_of_their_own() {
    let messages =
        [start(), sentence("It is", false), error(2, "The model is gone."), error(1, "Mind the gap.")];
    let expected = "> Why?\nIt is\nerror: The model is gone. (503)\nnote: Mind the gap.\n";
    assert_eq!(show(Style::Plain, true, &messages), expected);
    assert!(show(EYES, true, &messages).contains("\x1b[31merror: The model is gone. (503)\x1b[0m\n"));
}

#[test]
fn nothing_from_the_network_steers_the_terminal() {
    let evil = "\x1b]0;owned\x07\x1b[2J\u{9b}31m\r\u{202e}";
    let whole = AssistantMessage {
        id: id("a7"),
        previous_id: id("m1"),
        conversation_id: id("room"),
        content: evil.to_owned(),
        timestamp: None,
    };
    let messages = [
        delta("s1", evil),
        step("s1", evil),
        step("s2", evil),
        request("r1", evil, json!({ (evil): evil })),
        result("r1", Ok(json!(evil))),
        request("r2", evil, json!({})),
        result("r2", Err(evil)),
        start(),
        sentence(evil, true),
        error(2, evil),
        error(0, evil),
        Body::AssistantMessage(whole),
    ];
    for style in [GREY, Style::Plain] {
        let shown = show(style, true, &messages);
        let control = shown.chars().find(|&c| (c.is_control() && c != '\n') || c == '\u{202e}');
        assert_eq!(control, None, "{shown:?}");
    }
    let coloured = show(EYES, true, &messages);
    let ours_removed =
        ["\x1b[2m", "\x1b[31m", "\x1b[0m"].iter().fold(coloured, |out, code| out.replace(code, ""));
    assert!(!ours_removed.contains('\x1b'), "{ours_removed:?}");
}

#[test]
fn a_whole_answer_is_shown_unless_its_sentences_were() {
    let whole = |answer: &str| {
        Body::AssistantMessage(AssistantMessage {
            id: id(answer),
            previous_id: id("m1"),
            conversation_id: id("room"),
            content: "All of it.".to_owned(),
            timestamp: None,
        })
    };
    let messages = [start(), sentence("All of it.", true), whole("a1"), whole("a2")];
    assert_eq!(show(Style::Plain, true, &messages), "> Why?\nAll of it.\nAll of it.\n");
}

#[test]
fn what_we_say_ourselves_does_not_run_into_the_answer() {
    let mut screen = Screen::new(GREY, true);
    assert_eq!(screen.prompt(), "> ");
    assert_eq!(screen.note("the agent is here"), "\nthe agent is here\n");
    assert_eq!(screen.prompt(), "> ");
    screen.typed();
    assert_eq!(screen.prompt(), "> ");
}

#[test]
fn figures_are_rough_where_the_endpoint_did_not_count() {
    let rough = TurnMeta { exact: false, reasoning_tokens: None, interrupted: true, ..meta() };
    assert_eq!(figures(&rough), "stopped, about 20 tokens in, about 30 out, 4.2 s");
    let none = TurnMeta { input_tokens: None, output_tokens: None, ..meta() };
    assert_eq!(figures(&none), "4.2 s");
}

#[test]
fn times_are_told_as_people_do() {
    let told = [0, 499, 500, 3_400, 59_400, 59_500, 83_000].map(|ms| in_words(Duration::from_millis(ms)));
    assert_eq!(told, ["a moment", "a moment", "1 s", "3 s", "59 s", "1 min 0 s", "1 min 23 s"]);
}

#[test]
fn what_others_ask_is_shown_clean_and_on_one_line() {
    let mut screen = Screen::new(GREY, true);
    let shown = screen.overhear("an\u{1b}[31mna", "Why?\r\n\u{7}error: no");
    assert_eq!(shown, "an[31mna asks: Why?  error: no\n");
    screen.prompt();
    assert_eq!(screen.overhear("bob", "How?"), "\nbob asks: How?\n", "the prompt is left alone");
}

#[test]
fn whoever_is_asked_for_leave_sees_all_of_what_would_be_done() {
    let path = format!("/{}/end", "long/".repeat(200));
    let Value::Object(parameters) = json!({"path": path, "text": "\u{1b}[2Jhidden"}) else { panic!("a map") };
    let mut screen = Screen::new(GREY, true);
    let body = Body::ToolConsentRequest(ToolConsentRequest {
        id: id("c1"),
        request_id: id("atu_1"),
        message_id: id("m1"),
        conversation_id: id("room"),
        tool_name: id("delete"),
        parameters,
        reason: Some(id("strangers wrote a part of the prompt")),
        timeout_ms: 60_000,
    });
    let envelope = Envelope { stanza: -1, conversation: None, meta: Map::new(), body };
    let shown = screen.receive(&envelope, Duration::ZERO);
    assert!(shown.contains("/end") && shown.contains("strangers wrote") && shown.contains("60 s"), "{shown}");
    assert!(shown.contains("/allow") && !shown.contains('\u{1b}'), "{shown}");
}
