//! The mathematics of HushQL: exact privacy parameters, samplers without floats, and the mechanisms
//! on top of them.
//!
//! In: sensitivities and costs, as integers and rationals. Out: noise, choices, and bounds on their
//! error. This crate knows no SQL, no table and no file: it depends on numbers and on the operating
//! system's entropy alone. The caller answers for the sensitivities. Given correct ones, each draw
//! has exactly the privacy that its `# Guarantee` states.
//!
//! | module | holds |
//! |---|---|
//! | [`privacy`] | ε, δ and ρ, losses and their sums, and the integers that a ledger stores |
//! | [`sampler`] | exact draws on integers; the only source of randomness |
//! | [`mechanism`] | Laplace, Gaussian and exponential mechanisms, thresholds for unknown groups, and their errors |
//! | [`hierarchy`] | released numbers of a tree of groups, made to add up |
//! | [`synthetic`] | rows that are made from noisy marginals |
//!
//! ```
//! use hushql_privacy::mechanism::Laplace;
//! use hushql_privacy::sampler::QueryRng;
//!
//! let count = Laplace::calibrate(1, &"0.5".parse()?)?; // one person moves a count by 1
//! let noisy = 32_561 + count.draw(&mut QueryRng::from_os()?);
//! # let _ = noisy;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The feature `testing` adds reproducible generators. Noise with a known seed protects no one, so
//! no release build turns the feature on.

#![forbid(unsafe_code)]

pub mod hierarchy;
pub mod mechanism;
pub mod privacy;
pub mod sampler;
pub mod synthetic;
