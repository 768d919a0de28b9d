//! Any byte pipe as a connection that carries messages: WebSocket, stdio, memory.
