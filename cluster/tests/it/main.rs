//! Bounded inputs in other processes: what is sent, and what comes back.

mod equal;
mod measure;
mod sent;
mod study;
