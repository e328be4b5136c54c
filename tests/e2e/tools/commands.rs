//! `sotto tools`, with a server that nobody has approved yet.

use serde_json::Value;
use sotto_harness::{agent, mcp, server::Server};

const SOTTO: &str = env!("CARGO_BIN_EXE_sotto");

pub(crate) async fn commands_list_approve_and_call() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sotto.toml");
    let command: Vec<_> = mcp::trials().iter().map(|part| format!("{part:?}")).collect();
    let config = format!(
        "[tools]\nclient_tools = true\n\
         [[tools.mcp]]\nname = \"trials\"\ncommand = [{}]\neffects = [\"changes\"]\n\
         tools = {{ fail = {{ effects = [], confirm = true }} }}\n\
         [[tools.client]]\nname = \"open_page\"\ndescription = \"Shows a page.\"\nrpc = true\neffects = []\n",
        command.join(", ")
    );
    std::fs::write(&file, config).expect("a file");
    let file = file.to_string_lossy().into_owned();
    let server = Server::shared().await;
    let sotto = async |arguments: &[&str]| {
        let arguments: Vec<_> =
            ["--config", &file, "tools"].into_iter().chain(arguments.iter().copied()).collect();
        let output = agent::run(SOTTO, &server, &[], &arguments).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };

    let (code, listed, _) = sotto(&["list", "--json"]).await;
    assert_eq!(code, Some(0));
    let tools: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).expect("it is listed");
    assert_eq!((&find("time")["from"], &find("time")["approval"]), (&"built in".into(), &"approved".into()));
    let add = find("trials__add");
    assert_eq!((&add["from"], &add["approval"]), (&"MCP server trials".into(), &"new".into()));
    assert_eq!(add["effects"], serde_json::json!(["changes"]));
    assert_eq!(add["parameters"]["properties"]["a"]["type"], "integer");
    let fail = find("trials__fail");
    assert_eq!((&fail["effects"], &fail["confirm"]), (&serde_json::json!([]), &true.into()));
    let page = find("open_page");
    assert_eq!((&page["from"], &page["execution"]), (&"the client of whoever asks".into(), &"rpc".into()));
    let (code, _, complaint) = sotto(&["call", "open_page"]).await;
    assert!(
        code == Some(1) && complaint.contains("open_page is run by the client of whoever asks"),
        "{complaint}"
    );

    let (code, _, complaint) = sotto(&["call", "trials__add", r#"{"a": 1, "b": 2}"#]).await;
    assert!(code == Some(1) && complaint.contains("sotto tools approve trials__add"), "{complaint}");
    let (code, approved, _) = sotto(&["approve", "trials__add"]).await;
    assert!(code == Some(0) && approved.starts_with("approved: trials__add (was new)\n"), "{approved}");
    let (code, result, complaint) = sotto(&["call", "trials__add", r#"{"a": 1, "b": 2}"#]).await;
    assert_eq!((code, result.trim()), (Some(0), r#"{"result":"3"}"#), "{complaint}");

    let (_, listed, _) = sotto(&["list"]).await;
    assert!(
        listed.contains("trials__add\n  MCP server trials\n  effects: changes\n  Adds two numbers.\n"),
        "{listed}"
    );
    assert!(
        listed.contains("trials__recall\n  MCP server trials, NEW: not offered until it is approved\n"),
        "{listed}"
    );
    assert!(
        listed.contains(
            "open_page\n  the client of whoever asks, by a remote call\n  effects: none\n  Shows a page.\n"
        ),
        "{listed}"
    );
    assert!(listed.ends_with("offer to run themselves (client_…), each in its owner's turns\n"), "{listed}");
    let (code, _, complaint) = sotto(&["approve", "nothing"]).await;
    assert!(
        code == Some(2) && complaint.contains("no MCP server and no tool of one called \"nothing\""),
        "{complaint}"
    );
    let (code, _, _) = sotto(&["approve"]).await;
    assert_eq!(code, Some(0));
    let (_, listed, _) = sotto(&["list"]).await;
    assert!(!listed.contains("NEW"), "{listed}");
}

pub(crate) async fn a_server_that_must_not_be_reached_is_told_without_its_secrets() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sotto.toml");
    let file_name = file.to_string_lossy().into_owned();
    let server = Server::shared().await;
    let settings = [("SOTTO_LOG", "debug"), ("WIKI_TOKEN", "s3cret-token"), ("WIKI_KEY", "s3cret-key")];
    for (allow_hosts, told) in [
        ("[]", "which is no public address; if that is meant, list \"localhost\" in tools.allow_hosts"),
        ("[\"localhost\"]", "cannot connect to it: "),
    ] {
        let config = format!(
            "[tools]\nallow_hosts = {allow_hosts}\n[[tools.mcp]]\nname = \"wiki\"\n\
             url = \"http://localhost:1/mcp?token=${{WIKI_TOKEN}}\"\nheaders = {{ X-Key = \"${{WIKI_KEY}}\" }}\n"
        );
        std::fs::write(&file, config).expect("a file");
        let output = agent::run(SOTTO, &server, &settings, &["--config", &file_name, "tools", "list"]).await;
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains(told), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}
