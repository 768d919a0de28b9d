//! What tests share: raw peers, the real codex binary, a scripted model, vectors.
