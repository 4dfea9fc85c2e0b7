//! Talks to a clearinghouse.
