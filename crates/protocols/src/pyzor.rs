//! Pyzor, as its client and the one in SpamAssassin speak it.
