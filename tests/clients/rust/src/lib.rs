//! Mayfly as the vendors' clients for Rust find it, with their default settings.
#![cfg(test)]
#![recursion_limit = "256"]

mod cosmos;
mod mayfly;
mod mongo;
mod ydb;
