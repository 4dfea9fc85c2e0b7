//! Datagrams are decoded or dropped, and decoded datagrams encode to the same bytes. Texts are parsed as whitelists or
//! rejected.

use bruit_protocols::dcc::whitelist::{self, ENTRIES_MAX};
use bruit_protocols::dcc::{Ask, Header, ITEMS_MAX, Item, Reply, Request, Totals};
use bruit_testing::dcc::{self as client, Answer};

pub(crate) fn fuzz(bytes: &[u8]) {
    if let Ok(entries) = whitelist::read(bytes) {
        assert!(entries.len() <= ENTRIES_MAX);
    }
    read(bytes);
    // Decode again with the correct length, which mutations rarely produce.
    let mut frame = bytes.to_vec();
    if let (Some(length), Ok(said)) = (frame.first_chunk_mut(), u16::try_from(bytes.len())) {
        *length = said.to_be_bytes();
        read(&frame);
    }
}

fn read(frame: &[u8]) {
    if let Some(request) = Request::decode(frame) {
        write_again(&request);
    }
    if let Some(received) = client::decode(frame)
        && let Answer::Totals(totals) = received.answer
    {
        let totals: Vec<Totals> = totals.iter().collect();
        let mut out = Vec::new();
        Reply::Answer(&totals).encode(&received.header, received.header.sender, &mut out, |_| signature(frame));
        assert_eq!(out[24..], frame[24..]);
    }
}

/// Returns the last bytes of a frame.
fn signature(frame: &[u8]) -> [u8; 16] {
    *frame.last_chunk().expect("a frame has a signature")
}

fn write_again(request: &Request<'_>) {
    let items: Vec<Item> = match request.ask {
        Ask::Query(items) | Ask::Report { items, .. } => items.iter().collect(),
        _ => Vec::new(),
    };
    assert!(items.len() <= ITEMS_MAX);
    let ask: Ask<'_, &[Item]> = match request.ask {
        Ask::Nop => Ask::Nop,
        Ask::Query(_) => Ask::Query(&items),
        Ask::Report { targets, .. } => Ask::Report { targets, items: &items },
        Ask::Delete { clock, item } => Ask::Delete { clock, item },
        Ask::Admin(admin) => Ask::Admin(admin),
    };
    let mut out = Vec::new();
    client::encode(&request.header, &ask, &mut out, |_| signature(request.frame()));
    let Request { header: Header { version, sender, numbers }, ask: again, .. } =
        Request::decode(&out).expect("our own request can be decoded");
    assert_eq!((version, sender, numbers), (request.header.version, request.header.sender, request.header.numbers));
    assert_eq!(again, Request::decode(request.frame()).expect("the datagram was decoded before").ask);
    assert_eq!(out.len(), request.frame().len());
}
