//! Builds the programs and tells what they are made of.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Anything;

#[derive(Clone, Copy)]
pub enum Panic {
    Unwind,
    Abort,
}

impl Panic {
    /// What `PANIC` names.
    pub fn asked() -> Self {
        match std::env::var("PANIC").as_deref() {
            Ok("abort") => Self::Abort,
            _ => Self::Unwind,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Unwind => "unwind",
            Self::Abort => "abort",
        }
    }
}

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
    }
}

/// Builds a program, into a folder for each way to panic, and says where it is.
pub fn build(name: &str, panic: Panic) -> Result<PathBuf, Anything> {
    build_into(&target().join(panic.name()), name, panic)
}

fn build_into(folder: &Path, name: &str, panic: Panic) -> Result<PathBuf, Anything> {
    eprintln!("building {name}, panic = {}", panic.name());
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--locked", "--profile", "edge"])
        .args([
            "--manifest-path",
            MANIFEST,
            "--bin",
            name,
            "--features",
            name,
        ])
        .env("CARGO_TARGET_DIR", folder)
        .env("CARGO_PROFILE_EDGE_PANIC", panic.name())
        .status()?;
    if !status.success() {
        return Err(format!("{name} does not build").into());
    }
    Ok(folder.join("edge").join(name))
}

pub fn kib(program: &Path) -> Result<f64, Anything> {
    Ok(program.metadata()?.len() as f64 / 1024.0)
}

/// How many packages a program's tree holds, those included that run while it is compiled, without
/// the project that measures.
pub fn packages(name: &str) -> Result<f64, Anything> {
    let tree = Command::new("cargo")
        .args(["tree", "--quiet", "--locked", "--manifest-path", MANIFEST])
        .args([
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--features",
            name,
        ])
        .output()?;
    let tree = String::from_utf8(tree.stdout)?;
    let packages: HashSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(" (").next())
        .filter(|line| !line.starts_with("footprint "))
        .collect();
    if packages.is_empty() {
        return Err(format!("no tree of {name}").into());
    }
    Ok(packages.len() as f64)
}

/// CPU seconds to build a program in an empty folder; its packages are downloaded before.
pub fn clean_build(name: &str) -> Result<f64, Anything> {
    let folder = target().join("clean");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let before = children_seconds()?;
    build_into(&folder, name, Panic::Unwind)?;
    let spent = children_seconds()? - before;
    std::fs::remove_dir_all(&folder)?;
    Ok(spent)
}

/// CPU time of the processes that we started and waited for, and of theirs.
fn children_seconds() -> Result<f64, Anything> {
    // Fixed for programs, whatever the kernel counts in.
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in brackets may hold spaces.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
    let ticks = |field: usize| -> Result<f64, Anything> {
        let text = fields.split_whitespace().nth(field).ok_or("too short")?;
        Ok(text.parse()?)
    };
    let (user, system) = (ticks(13)?, ticks(14)?);
    Ok((user + system) / TICKS_A_SECOND)
}
