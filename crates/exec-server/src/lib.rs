//! Sessions and handlers: the executor behind the protocol.
