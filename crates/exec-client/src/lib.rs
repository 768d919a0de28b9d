//! The protocol from the other side: typed calls, process handles, reconnection.
