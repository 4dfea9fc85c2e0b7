//! A bank's mail, and a phish that copies the bank's logo and legal footer byte for byte.

/// The data of a file that begins like a PNG and is long enough to count as a picture.
const LOGO: &str = "iVBORw0KGgoAAAANSUhEUgAAADAAAAAYCAIAAAAzhvYqAAAAQUlEQVR42u3OMQEAAAgDoC251a3gLwRgk7Yz\n\
    UVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVV1tAfBQgNHi8cxAAAAAElFTkSuQmCC\n\
    iVBORw0KGgoAAAANSUhEUgAAADAAAAAYCAIAAAAzhvYqAAAAQUlEQVR42u3OMQEAAAgDoC251a3gLwRgk7Yz\n";

const FOOTER: &str = "Harbour Bank plc is authorised and regulated by the Financial Conduct Authority. Registered office:\n\
    12 Quay Street, Bristol. Calls may be recorded for training. Harbour Bank never asks for your password\n\
    or your security number by e-mail. Our branches are open from Monday to Saturday.\n";

/// Returns the phish, addressed to the person with this name.
pub(crate) fn phish(name: &str) -> Vec<u8> {
    mail(
        "Your access is limited",
        &format!(
            "Dear {name},\n\nwe noticed an unusual sign-in to your savings and have limited your access to protect you.\n\
             Confirm your identity within twelve hours at http://harbour-secure.example/confirm or the account\n\
             will be closed for good and the remaining balance returned to its sender.\n"
        ),
    )
}

/// Returns a genuine message from the bank.
pub(crate) fn genuine() -> Vec<u8> {
    mail(
        "Your statement is ready",
        "Dear customer,\n\nyour statement for October is now available in online banking. This month we have also added a\n\
         calculator for mortgage payments, which shows how a change of interest would affect your plans. You\n\
         find it under services when you have signed in as usual.\n",
    )
}

fn mail(subject: &str, text: &str) -> Vec<u8> {
    let parts = [
        format!("Content-Type: text/plain; charset=utf-8\n\n{text}"),
        format!("Content-Type: text/plain; charset=utf-8\n\n{FOOTER}"),
        format!(
            "Content-Type: image/png; name=\"logo.png\"\nContent-Transfer-Encoding: base64\nContent-ID: <logo>\n\n{LOGO}"
        ),
    ];
    let body: String = parts.iter().map(|part| format!("--=_bank\n{part}\n")).collect();
    format!(
        "From: Harbour Bank <news@harbour.example>\nTo: someone@example.org\nSubject: {subject}\nMIME-Version: 1.0\n\
         Content-Type: multipart/mixed; boundary=\"=_bank\"\n\n{body}--=_bank--\n"
    )
    .into_bytes()
}
