//! The milter protocol, version 6, as Postfix and Sendmail speak it: the MTA connects, the milter answers.
//!
//! A frame is a length of 4 bytes (big-endian), a command byte, and data; the length includes the command byte. One
//! connection carries one SMTP session with any number of messages. The module decodes what an MTA sends and encodes
//! what a milter answers. It neither rebuilds messages nor decides anything.
//!
//! There is no specification besides libmilter, so decoding follows what Postfix 3.7 and Sendmail 8.17 were seen to
//! send. The decoder waits for the rest of an incomplete frame. An invalid frame is an error. No frame causes an
//! allocation of more memory than it has bytes.
//!
//! | module | contents |
//! |---|---|
//! | `command` | the commands of an MTA |
//! | `frame` | frames in bytes that arrive in pieces |
//! | `options` | what both sides agree on at the start of a connection |
//! | `reply` | the answers of a milter |

mod command;
mod frame;
mod options;
mod reply;

pub use command::{Command, Macros, Peer, Strings};
pub use frame::{Decoder, FRAME_BYTES_MAX, FrameError, KEPT_BYTES_MAX, RECEIVE_BYTES_MAX};
pub use options::{Actions, Options, Stage, Steps, VERSION, VERSION_MIN};
pub use reply::{Reply, write};
