//! Requests: parsed lines.

use std::borrow::Cow;

use bruit_signatures::razor::{E4Signature, Ep4};

use super::Signature;
use super::reply::ErrorCode;
use super::sis;

/// Maximum length of an accepted user name in bytes.
pub const USER_BYTES_MAX: usize = 128;

/// Maximum length of an accepted password in bytes.
pub(super) const PASSWORD_BYTES_MAX: usize = 64;

/// Maximum length of an accepted response to a challenge, in bytes. Clients send 28 bytes.
const RESPONSE_BYTES_MAX: usize = 64;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A greeting with the client's name and version. It gets no reply.
    Greeting,
    /// Return the server state.
    State,
    /// Return the catalogue servers.
    CatalogueServers,
    /// Return the nomination servers.
    NominationServers,
    /// Create an account, with this name and password if present.
    Register { user: Option<Vec<u8>>, password: Option<Vec<u8>> },
    /// Return a challenge for this user.
    Identify { user: Vec<u8> },
    /// Authenticate as the identified user.
    Authenticate { response: Vec<u8> },
    /// Check a signature.
    Check(Signature),
    /// Report a part with this signature as spam. Without `ep4`, the current value applies.
    Report { e4: E4Signature, ep4: Option<Ep4> },
    /// Revoke a signature.
    Revoke(Signature),
    /// Report the parts of this blob as spam.
    ReportBodies,
    /// End the conversation.
    Quit,
}

impl Request {
    /// Parses a line without its line ending.
    ///
    /// # Errors
    /// Fails with the error code for the reply.
    pub(super) fn parse(line: &[u8]) -> Result<Self, ErrorCode> {
        let fields = Fields::of(line);
        match fields.action.as_deref() {
            None => Ok(Self::Greeting),
            Some(b"g") => fields.parameter(),
            Some(b"reg") => fields.register(),
            Some(b"ai") => Ok(Self::Identify { user: bounded(fields.user, USER_BYTES_MAX, ErrorCode::UNKNOWN_USER)? }),
            Some(b"auth") => {
                let response = bounded(fields.response, RESPONSE_BYTES_MAX, ErrorCode::MALFORMED)?;
                Ok(Self::Authenticate { response })
            }
            Some(b"c") => fields.signature().map(Self::Check),
            Some(b"r") => fields.report(),
            Some(b"revoke") => fields.signature().map(Self::Revoke),
            Some(b"q") => Ok(Self::Quit),
            Some(_) => Err(ErrorCode::UNKNOWN_ACTION),
        }
    }
}

/// The known keys of a line. If a key is repeated, the last value counts.
#[derive(Default)]
struct Fields<'a> {
    action: Option<Cow<'a, [u8]>>,
    parameter: Option<Cow<'a, [u8]>>,
    user: Option<Cow<'a, [u8]>>,
    password: Option<Cow<'a, [u8]>>,
    response: Option<Cow<'a, [u8]>>,
    engine: Option<Cow<'a, [u8]>>,
    ep4: Option<Cow<'a, [u8]>>,
    signature: Option<Cow<'a, [u8]>>,
    message: Option<Cow<'a, [u8]>>,
}

impl<'a> Fields<'a> {
    fn of(line: &'a [u8]) -> Self {
        let mut fields = Self::default();
        for (key, value) in sis::pairs(line) {
            let field = match key {
                b"a" => &mut fields.action,
                b"pm" => &mut fields.parameter,
                b"user" => &mut fields.user,
                b"pass" => &mut fields.password,
                b"aresp" => &mut fields.response,
                b"e" => &mut fields.engine,
                b"ep4" => &mut fields.ep4,
                b"s" => &mut fields.signature,
                b"message" => &mut fields.message,
                _ => continue,
            };
            *field = Some(value);
        }
        fields
    }

    fn parameter(&self) -> Result<Request, ErrorCode> {
        match self.parameter.as_deref() {
            Some(b"state") => Ok(Request::State),
            Some(b"csl") => Ok(Request::CatalogueServers),
            Some(b"nsl") => Ok(Request::NominationServers),
            _ => Err(ErrorCode::UNKNOWN_ACTION),
        }
    }

    /// Creates a registration. An empty name or password counts as absent, so that the server chooses one.
    fn register(self) -> Result<Request, ErrorCode> {
        let given = |field: Option<Cow<'a, [u8]>>, bytes_max, code| {
            let field = field.filter(|field| !field.is_empty());
            field.map(|field| bounded(Some(field), bytes_max, code)).transpose()
        };
        Ok(Request::Register {
            user: given(self.user, USER_BYTES_MAX, ErrorCode::NAME_REFUSED)?,
            password: given(self.password, PASSWORD_BYTES_MAX, ErrorCode::PASSWORD_REFUSED)?,
        })
    }

    fn report(&self) -> Result<Request, ErrorCode> {
        if self.message.as_deref() == Some(b"*") {
            return Ok(Request::ReportBodies);
        }
        let Signature::E4(e4) = self.signature()? else { return Err(ErrorCode::NO_SIGNATURE) };
        let ep4 = self.ep4.as_deref().map(|ep4| text(ep4)?.parse().map_err(|_| ErrorCode::NO_SIGNATURE)).transpose()?;
        Ok(Request::Report { e4, ep4 })
    }

    fn signature(&self) -> Result<Signature, ErrorCode> {
        let signature = text(self.signature.as_deref().unwrap_or_default())?;
        let signature = match self.engine.as_deref() {
            Some(b"4") => signature.parse().map(Signature::E4),
            Some(b"8") => signature.parse().map(Signature::E8),
            _ => return Err(ErrorCode::NO_SIGNATURE),
        };
        signature.map_err(|_| ErrorCode::NO_SIGNATURE)
    }
}

fn text(bytes: &[u8]) -> Result<&str, ErrorCode> {
    str::from_utf8(bytes).map_err(|_| ErrorCode::NO_SIGNATURE)
}

/// Returns the value if it has 1 to `bytes_max` bytes, otherwise the error `code`.
fn bounded(value: Option<Cow<'_, [u8]>>, bytes_max: usize, code: ErrorCode) -> Result<Vec<u8>, ErrorCode> {
    let value = value.unwrap_or_default();
    if (1..=bytes_max).contains(&value.len()) { Ok(value.into_owned()) } else { Err(code) }
}

/// Parses the requests of a batch, one per line. The first line may be a template in which some values are a bare `?`.
/// Each further line then contains the missing values of one request.
pub(super) fn batch(lines: &[u8]) -> Vec<Result<Request, ErrorCode>> {
    let mut lines = lines.split_inclusive(|&byte| byte == b'\n').map(sis::strip_line_end);
    let first = lines.next().unwrap_or_default();
    if sis::raw_pairs(first).any(|(_, value)| value == b"?") {
        return lines.map(|values| Request::parse(&filled(first, values)?)).collect();
    }
    let first = Some(first).filter(|first| !first.is_empty());
    first.into_iter().chain(lines).map(Request::parse).collect()
}

/// Replaces each `?` of a template with the comma-separated values of a line.
fn filled(template: &[u8], values: &[u8]) -> Result<Vec<u8>, ErrorCode> {
    let mut values = values.split(|&byte| byte == b',');
    let mut line = Vec::with_capacity(template.len() + values.size_hint().0);
    for (key, value) in sis::raw_pairs(template) {
        let value = if value == b"?" { values.next().ok_or(ErrorCode::MALFORMED)? } else { value };
        line.extend_from_slice(key);
        line.push(b'=');
        line.extend_from_slice(value);
        line.push(b'&');
    }
    if values.next().is_none() { Ok(line) } else { Err(ErrorCode::MALFORMED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E4: &str = "16Zk7WBkwtND3NokefwLHWhxUAUA";
    const E8: &str = "A1X0JdhQilUA";

    fn e4() -> E4Signature {
        E4.parse().unwrap()
    }

    fn e8() -> Signature {
        Signature::E8(E8.parse().unwrap())
    }

    fn parse(line: &str) -> Result<Request, ErrorCode> {
        Request::parse(line.as_bytes())
    }

    #[test]
    fn lines_of_real_clients_are_understood() {
        let user = b"alice@example.org".to_vec();
        for (line, request) in [
            ("cn=razor-agents&cv=2.84", Request::Greeting),
            ("a=g&pm=state", Request::State),
            ("a=g&pm=csl", Request::CatalogueServers),
            ("a=g&pm=nsl", Request::NominationServers),
            ("a=ai&cn=razor-agents&cv=2.84&user=alice%40example.org", Request::Identify { user: user.clone() }),
            ("a=auth&aresp=oUsPU6", Request::Authenticate { response: b"oUsPU6".to_vec() }),
            ("a=reg&registrar=Razor-Agents%20v2.84", Request::Register { user: None, password: None }),
            (
                "a=reg&pass=s3cret&registrar=Razor-Agents%20v2.84&user=alice%40example.org",
                Request::Register { user: Some(user), password: Some(b"s3cret".to_vec()) },
            ),
            ("a=r&message=*", Request::ReportBodies),
            ("a=q", Request::Quit),
            (&format!("a=c&e=8&s={E8}"), Request::Check(e8())),
            (&format!("a=c&e=4&ep4=7542-10&s={E4}"), Request::Check(Signature::E4(e4()))),
            (&format!("a=revoke&e=4&s={E4}"), Request::Revoke(Signature::E4(e4()))),
            (&format!("a=r&e=4&ep4=7542-10&s={E4}"), Request::Report { e4: e4(), ep4: Some(Ep4::default()) }),
        ] {
            assert_eq!(parse(line), Ok(request), "{line}");
        }
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        assert_eq!(parse("a=l&a=q"), Ok(Request::Quit));
    }

    #[test]
    fn invalid_requests_have_an_error_code() {
        for (line, code) in [
            ("a=", ErrorCode::UNKNOWN_ACTION),
            ("a=xyz", ErrorCode::UNKNOWN_ACTION),
            ("a=g", ErrorCode::UNKNOWN_ACTION),
            ("a=ai", ErrorCode::UNKNOWN_USER),
            ("a=auth", ErrorCode::MALFORMED),
            ("a=c", ErrorCode::NO_SIGNATURE),
            ("a=c&e=4&s=%FF", ErrorCode::NO_SIGNATURE),
            (&format!("a=c&e=1&s={E4}"), ErrorCode::NO_SIGNATURE),
            (&format!("a=c&e=8&s={E4}"), ErrorCode::NO_SIGNATURE),
            (&format!("a=r&e=8&s={E8}"), ErrorCode::NO_SIGNATURE),
            (&format!("a=r&e=4&ep4=0-10&s={E4}"), ErrorCode::NO_SIGNATURE),
        ] {
            assert_eq!(parse(line), Err(code), "{line}");
        }
    }

    #[test]
    fn names_passwords_and_responses_are_bounded() {
        let line = |key: &str, bytes: usize| parse(&format!("{key}={}", "x".repeat(bytes)));
        for (key, bytes_max, code) in [
            ("a=reg&user", USER_BYTES_MAX, ErrorCode::NAME_REFUSED),
            ("a=reg&pass", PASSWORD_BYTES_MAX, ErrorCode::PASSWORD_REFUSED),
            ("a=ai&user", USER_BYTES_MAX, ErrorCode::UNKNOWN_USER),
            ("a=auth&aresp", RESPONSE_BYTES_MAX, ErrorCode::MALFORMED),
        ] {
            assert!(line(key, bytes_max).is_ok());
            assert_eq!(line(key, bytes_max + 1), Err(code), "{key}");
        }
    }

    #[test]
    fn a_template_is_filled_from_the_lines_behind_it() {
        let lines = format!("a=c&e=?&s=?\n4,{E4}\r\n8,{E8}\n8\n8,{E8},x\n");
        let check = |signature| Ok(Request::Check(signature));
        let malformed = Err(ErrorCode::MALFORMED);
        let expected = [check(Signature::E4(e4())), check(e8()), malformed.clone(), malformed];
        assert_eq!(batch(lines.as_bytes()), expected);
    }

    #[test]
    fn a_batch_may_be_empty() {
        for lines in ["", "\r\n", "a=c&e=?&s=?\r\n"] {
            assert_eq!(batch(lines.as_bytes()), []);
        }
    }
}
