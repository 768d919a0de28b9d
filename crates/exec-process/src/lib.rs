//! One child and what it writes: spawn, containment, terminal, output log.
