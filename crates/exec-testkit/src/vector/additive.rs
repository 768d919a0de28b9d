//! Members that our server adds to what the reference sends.

use std::collections::HashMap;

use serde_json::Value;

/// The method, and where in its result or params. These are the only members that may appear
/// without being named in a pattern.
const ADDITIVE: &[(&str, &str)] = &[
    ("initialize", "/environmentInfo/containment"),
    ("initialize", "/environmentInfo/sandbox"),
    ("initialize", "/environmentInfo/capabilities/processControlV1"),
    ("initialize", "/environmentInfo/capabilities/fsRename"),
    ("initialize", "/environmentInfo/capabilities/fsAtomicWrite"),
    ("initialize", "/environmentInfo/capabilities/fsWatch"),
    ("initialize", "/environmentInfo/capabilities/fsSearch"),
    ("initialize", "/environmentInfo/capabilities/fsOpenUpdate"),
    ("environment/info", "/containment"),
    ("environment/info", "/sandbox"),
    ("environment/info", "/capabilities/processControlV1"),
    ("environment/info", "/capabilities/fsRename"),
    ("environment/info", "/capabilities/fsAtomicWrite"),
    ("environment/info", "/capabilities/fsWatch"),
    ("environment/info", "/capabilities/fsSearch"),
    ("environment/info", "/capabilities/fsOpenUpdate"),
    ("process/read", "/outputOffset"),
];

/// Knows which answer belongs to which method, and so which members may be overlooked in it.
#[derive(Clone)]
pub(super) struct Additive {
    tolerated: bool,
    /// The method of each request, by its id as text.
    asked: HashMap<String, String>,
}

impl Additive {
    pub(super) fn new(tolerated: bool) -> Self {
        Self { tolerated, asked: HashMap::new() }
    }

    /// Takes note of a message that is sent.
    pub(super) fn note(&mut self, text: &str) {
        if let Ok(request) = serde_json::from_str::<Value>(text)
            && let Some(method) = request["method"].as_str()
        {
            self.asked.insert(request["id"].to_string(), method.to_owned());
        }
    }

    /// The message without what we added and the pattern does not mention.
    pub(super) fn without(&self, pattern: &Value, message: &Value) -> Value {
        let mut message = message.clone();
        if !self.tolerated {
            return message;
        }
        let id = message["id"].to_string();
        let (method, body) = match message["method"].as_str() {
            Some(method) => (method.to_owned(), "params"),
            None => (self.asked.get(&id).cloned().unwrap_or_default(), "result"),
        };
        for (_, pointer) in ADDITIVE.iter().filter(|(of, _)| *of == method) {
            let (parent, member) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
            if pattern[body].pointer(pointer).is_none()
                && let Some(body) = message.get_mut(body)
                && let Some(Value::Object(members)) = body.pointer_mut(parent)
            {
                members.remove(member);
            }
        }
        message
    }
}
