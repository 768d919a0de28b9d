//! x
mod frame;
mod key;
mod limits;
mod noise;
mod recv_window;
mod segment;
mod send_window;
