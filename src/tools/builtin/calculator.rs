//! The tool `calculator`: arithmetic on one line, for models that cannot be trusted with it.
//!
//! An expression is read by recursive descent and worked out while it is read, in double precision. Length and depth
//! are limited, and there is nothing in it that repeats, so that no expression takes long.

use super::refuse_others;
use serde_json::{Map, Value, json};
use sotto_core::engine::event::ToolOutcome;
use sotto_core::model::ToolSpec;
use std::f64::consts;

pub(super) const NAME: &str = "calculator";
const EXPRESSION: &str = "expression";
const MAX_CHARS: usize = 500;
/// Brackets, signs and powers inside each other; keeps the stack small.
const MAX_DEPTH: usize = 50;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description: "Works out an arithmetic expression exactly as written, in double precision.".to_owned(),
        repeatable: true,
        parameters: json!({
            "type": "object",
            "properties": {
                EXPRESSION: {
                    "type": "string",
                    "description": "For example 12*(3+4) or sqrt(2)^3. Operators + - * / % (remainder) ^ (power); \
                                    functions sqrt abs round floor ceil min max exp ln log sin cos tan (radians); \
                                    constants pi e. A point for decimals, nothing between thousands."
                }
            },
            "required": [EXPRESSION],
            "additionalProperties": false
        }),
    }
}

pub(super) fn run(arguments: &Map<String, Value>) -> ToolOutcome {
    match refuse_others(arguments, EXPRESSION).and_then(|()| expression(arguments)) {
        Err(reason) => ToolOutcome::InvalidParameters(reason),
        Ok(expression) => match evaluate(expression) {
            Ok(result) => ToolOutcome::Done(json!({ "result": number(result) })),
            Err(reason) => ToolOutcome::Failed(reason),
        },
    }
}

fn expression(arguments: &Map<String, Value>) -> Result<&str, String> {
    match arguments.get(EXPRESSION) {
        Some(Value::String(text)) if text.trim().is_empty() => Err(format!("{EXPRESSION:?} is empty")),
        Some(Value::String(text)) if text.chars().count() > MAX_CHARS => {
            Err(format!("{EXPRESSION:?} is longer than {MAX_CHARS} characters; work it out in parts"))
        }
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{EXPRESSION:?} must be a text such as \"12*(3+4)\"")),
        None => Err(format!("{EXPRESSION:?} is missing; give it a text such as \"12*(3+4)\"")),
    }
}

/// A result as people write it: whole numbers without a point, fractions without the noise of the last binary digit
/// (0.1 + 0.2 is 0.3).
fn number(result: f64) -> Value {
    let whole = result.fract() == 0.0;
    let tidy = if whole { result } else { format!("{result:.14e}").parse().unwrap_or(result) };
    // Up to here every whole number is exact.
    let exact = tidy.fract() == 0.0 && tidy.abs() < 9_007_199_254_740_992.0;
    if exact { json!(tidy as i64) } else { json!(tidy) }
}

fn evaluate(expression: &str) -> Result<f64, String> {
    let mut reader = Reader { rest: expression, depth: 0 };
    let result = reader.sum()?;
    match reader.peek() {
        None => Ok(result),
        Some(')') => Err("there is a ) without a (".to_owned()),
        Some(',') => {
            Err("a comma only separates the arguments of a function; write decimals with a point and \
                          nothing between thousands"
                .to_owned())
        }
        Some(other) => Err(format!("did not expect {other:?} after a complete expression")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            value = if self.take("+") {
                finite(value + self.product()?)?
            } else if self.take("-") || self.take("−") {
                finite(value - self.product()?)?
            } else {
                return Ok(value);
            };
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        loop {
            value = if self.take("*") || self.take("×") || self.take("·") {
                finite(value * self.signed()?)?
            } else if self.take("/") || self.take("÷") {
                finite(value / not_zero(self.signed()?)?)?
            } else if self.take("%") {
                finite(value % not_zero(self.signed()?)?)?
            } else {
                return Ok(value);
            };
        }
    }

    /// A sign binds less than a power: -2^2 is -4.
    fn signed(&mut self) -> Result<f64, String> {
        self.deeper(|reader| {
            if reader.take("-") || reader.take("−") {
                Ok(-reader.signed()?)
            } else if reader.take("+") {
                reader.signed()
            } else {
                reader.power()
            }
        })
    }

    /// Powers go from right to left, and take a sign in the exponent: 2^-1.
    fn power(&mut self) -> Result<f64, String> {
        let base = self.value()?;
        if self.take("**") || self.take("^") {
            let exponent = self.signed()?;
            if base == 0.0 && exponent < 0.0 {
                return Err("division by zero".to_owned());
            }
            return finite(base.powf(exponent));
        }
        Ok(base)
    }

    fn value(&mut self) -> Result<f64, String> {
        match self.peek() {
            Some('(') => {
                self.take("(");
                let value = self.sum()?;
                if self.take(")") { Ok(value) } else { Err(self.unclosed()) }
            }
            Some(digit) if digit.is_ascii_digit() || digit == '.' => self.literal(),
            Some(letter) if letter.is_ascii_alphabetic() => self.named(),
            Some(other) => Err(format!("did not expect {other:?} where a number should be")),
            None => Err("the expression ends where a number should be".to_owned()),
        }
    }

    fn literal(&mut self) -> Result<f64, String> {
        let mut end = self.span(|c| c.is_ascii_digit() || c == '.');
        // An exponent such as in 1.5e-3; without digits after it, the e is something else.
        if let Some(tail) = self.rest[end..].strip_prefix(['e', 'E']) {
            let digits = tail.strip_prefix(['+', '-']).unwrap_or(tail);
            let count = digits.bytes().take_while(u8::is_ascii_digit).count();
            if count > 0 {
                end = self.rest.len() - digits.len() + count;
            }
        }
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text.parse().map_err(|_| format!("{text:?} is no number")).and_then(finite)
    }

    fn named(&mut self) -> Result<f64, String> {
        let (name, rest) = self.rest.split_at(self.span(|c| c.is_ascii_alphanumeric()));
        self.rest = rest;
        if self.peek() != Some('(') {
            return match name {
                "pi" | "PI" | "Pi" => Ok(consts::PI),
                "e" | "E" => Ok(consts::E),
                _ => Err(format!(
                    "{name:?} is neither a constant (pi, e) nor followed by arguments in brackets"
                )),
            };
        }
        let arguments = self.arguments()?;
        apply(name, &arguments)
    }

    fn arguments(&mut self) -> Result<Vec<f64>, String> {
        self.take("(");
        let mut arguments = vec![self.sum()?];
        while self.take(",") {
            arguments.push(self.sum()?);
        }
        if self.take(")") { Ok(arguments) } else { Err(self.unclosed()) }
    }

    fn unclosed(&mut self) -> String {
        match self.peek() {
            None => "a ( is never closed".to_owned(),
            Some(other) => format!("did not expect {other:?} inside brackets"),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} levels deep; work it out in parts"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    /// Takes this token if it is the next one. A single `*` is not the beginning of `**`.
    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) if token != "*" || !rest.starts_with('*') => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// How many bytes of such characters come next.
    fn span(&self, belongs: impl Fn(char) -> bool) -> usize {
        self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len())
    }
}

fn apply(name: &str, arguments: &[f64]) -> Result<f64, String> {
    let result = match (name, arguments) {
        ("sqrt", [x]) if *x < 0.0 => return Err("a negative number has no real square root".to_owned()),
        ("ln" | "log", [x]) if *x <= 0.0 => return Err("only positive numbers have a logarithm".to_owned()),
        ("sqrt", [x]) => x.sqrt(),
        ("abs", [x]) => x.abs(),
        ("round", [x]) => x.round(),
        ("round", [x, digits]) if digits.fract() == 0.0 && (0.0..=15.0).contains(digits) => {
            format!("{x:.*}", *digits as usize).parse().unwrap_or(*x)
        }
        ("round", [_, _]) => return Err("round takes 0 to 15 digits".to_owned()),
        ("floor", [x]) => x.floor(),
        ("ceil", [x]) => x.ceil(),
        ("exp", [x]) => x.exp(),
        ("ln", [x]) => x.ln(),
        ("log", [x]) => x.log10(),
        ("sin", [x]) => x.sin(),
        ("cos", [x]) => x.cos(),
        ("tan", [x]) => x.tan(),
        ("min", [first, others @ ..]) => others.iter().fold(*first, |least, x| least.min(*x)),
        ("max", [first, others @ ..]) => others.iter().fold(*first, |most, x| most.max(*x)),
        ("sqrt" | "abs" | "floor" | "ceil" | "exp" | "ln" | "log" | "sin" | "cos" | "tan", _) => {
            return Err(format!("{name} takes one argument, not {}", arguments.len()));
        }
        ("round", _) => return Err("round takes a number and, if you like, how many digits".to_owned()),
        _ => return Err(format!("there is no function {name:?}")),
    };
    finite(result)
}

fn finite(value: f64) -> Result<f64, String> {
    if value.is_finite() {
        Ok(value)
    } else if value.is_nan() {
        Err("the result is not a real number".to_owned())
    } else {
        Err("the result is too large".to_owned())
    }
}

fn not_zero(value: f64) -> Result<f64, String> {
    if value == 0.0 { Err("division by zero".to_owned()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calculate(expression: &str) -> ToolOutcome {
        run(&Map::from_iter([(EXPRESSION.to_owned(), json!(expression))]))
    }

    #[track_caller]
    fn assert_result(expression: &str, result: &Value) {
        assert_eq!(calculate(expression), ToolOutcome::Done(json!({ "result": result })), "{expression}");
    }

    #[track_caller]
    fn assert_fails(expression: &str, reason: &str) {
        let ToolOutcome::Failed(told) = calculate(expression) else { panic!("{expression} has a result") };
        assert!(told.contains(reason), "{expression}: {told}");
    }

    #[test]
    fn operators_bind_as_in_school() {
        for (expression, result) in [
            ("12*(3+4)", json!(84)),
            ("1 + 2 * 3", json!(7)),
            ("10 - 4 - 3", json!(3)),
            ("100 / 10 / 2", json!(5)),
            ("2^3^2", json!(512)),
            ("2**10", json!(1024)),
            ("-2^2", json!(-4)),
            ("2^-1", json!(0.5)),
            ("--3", json!(3)),
            ("2*-3", json!(-6)),
            ("17 % 5", json!(2)),
            ("-7 % 3", json!(-1)),
            ("6 × 7 ÷ 2 − 1", json!(20)),
        ] {
            assert_result(expression, &result);
        }
    }

    #[test]
    fn numbers_come_out_as_people_write_them() {
        assert_result("0.1 + 0.2", &json!(0.3));
        assert_result("1e3 + .5", &json!(1000.5));
        assert_result("2.50 * 2", &json!(5));
        assert_result("0 * -1", &json!(0));
        assert_result("10 / 4", &json!(2.5));
        assert_result("0.1 * 3 * 10", &json!(3));
        assert_result("9007199254740991", &json!(9_007_199_254_740_991_i64));
        assert_result("2^60", &json!(2f64.powi(60)));
    }

    #[test]
    fn functions_and_constants() {
        assert_result("sqrt(16) + abs(-2)", &json!(6));
        assert_result("min(3, 1, 2) + max(4, 5)", &json!(6));
        assert_result("round(2.567, 1) + round(2.5)", &json!(5.6));
        assert_result("floor(2.9) + ceil(2.1)", &json!(5));
        assert_result("ln(e) + log(1000) + exp(0)", &json!(5));
        assert_result("sin(pi/2) + cos(0) + tan(0)", &json!(2));
    }

    #[test]
    fn what_cannot_be_worked_out_is_told_in_words() {
        for (expression, reason) in [
            ("1/0", "division by zero"),
            ("1%0", "division by zero"),
            ("0^-1", "division by zero"),
            ("sqrt(-1)", "no real square root"),
            ("(-8)^0.5", "not a real number"),
            ("ln(0)", "positive"),
            ("10^400", "too large"),
            ("1e999", "too large"),
            ("2 +", "ends where a number"),
            ("(1+2", "never closed"),
            ("1+2)", "without a ("),
            ("(1 2)", "inside brackets"),
            ("1 2", "after a complete expression"),
            ("1,000 + 1", "comma"),
            ("1.2.3", "\"1.2.3\" is no number"),
            ("x + 1", "\"x\" is neither a constant"),
            ("system(1)", "no function \"system\""),
            ("sqrt(1, 2)", "one argument, not 2"),
            ("min()", "where a number should be"),
            ("round(1, 99)", "0 to 15 digits"),
            ("2 + é", "'é'"),
            ("2 * * 3", "did not expect '*'"),
            ("2e", "after a complete expression"),
        ] {
            assert_fails(expression, reason);
        }
    }

    #[test]
    fn no_expression_is_too_deep_for_the_stack() {
        for deep in ["(".repeat(400), "-".repeat(400), "2^".repeat(240), "sqrt(".repeat(90)] {
            assert_fails(&deep, "levels deep");
        }
        let within = format!("{}1{}", "(".repeat(MAX_DEPTH - 1), ")".repeat(MAX_DEPTH - 1));
        assert_result(&within, &json!(1));
    }

    #[test]
    fn arguments_are_checked_before_anything_is_worked_out() {
        for (arguments, reason) in [
            (json!({}), "missing"),
            (json!({"expression": 5}), "must be a text"),
            (json!({"expression": "  "}), "empty"),
            (json!({"expression": "1+".repeat(300)}), "longer than 500"),
            (json!({"expression": "1", "digits": 3}), "no parameter \"digits\""),
        ] {
            let Value::Object(arguments) = arguments else { panic!("an object") };
            let ToolOutcome::InvalidParameters(told) = run(&arguments) else { panic!("{reason}: was taken") };
            assert!(told.contains(reason), "{told}");
        }
    }
}
