//! Runs rows and prints their lines.

use std::time::Duration;

use tokio::time::timeout;

use crate::report::{self, Figure, Line};
use crate::rows::{BEST, DEFAULT, OURS, ROWS, Row, Size};
use crate::{Outcome, child, load};

/// No measurement takes this long.
const STUCK: Duration = Duration::from_secs(60);

/// Measures the rows that the words pick and prints their lines.
pub(crate) fn rows(words: &[&str]) -> Outcome {
    let (mut picked, mut repeat, mut size) = (Vec::new(), None, Size { quick: false });
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--quick" => size.quick = true,
            "--repeat" => {
                let rounds = words.next().ok_or("--repeat needs a number")?;
                repeat = Some(
                    rounds
                        .parse()
                        .map_err(|e| format!("--repeat {rounds}: {e}"))?,
                );
            }
            name => picked.push(name),
        }
    }
    let rows: Vec<&Row> = if picked.is_empty() {
        ROWS.iter().collect()
    } else {
        pick(&picked)?
    };
    let rounds: usize = repeat.unwrap_or(if size.quick { 2 } else { 5 });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        child::pin_self(child::LOAD).await?;
        println!("{}", report::head(rounds)?);
        for row in rows {
            measure(row, rounds, size)
                .await
                .map_err(|e| format!("{}: {e}", row.name))?;
        }
        Ok(())
    })
}

fn pick(names: &[&str]) -> Outcome<Vec<&'static Row>> {
    let mut picked = Vec::new();
    for name in names {
        let before = picked.len();
        picked.extend(ROWS.iter().filter(|row| row.name.starts_with(name)));
        if picked.len() == before {
            let all: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            return Err(format!("no row {name}; there are {}", all.join(", ")).into());
        }
    }
    Ok(picked)
}

/// Interleaves the contestants, so that what disturbs the machine disturbs all of them.
async fn measure(row: &Row, rounds: usize, size: Size) -> Outcome {
    let mut values = vec![vec![Vec::new(); row.contestants.len()]; row.figures.len()];
    for _ in 0..rounds {
        for (contestant, &name) in row.contestants.iter().enumerate() {
            let measured = timeout(STUCK, (row.measure)(name, size)).await;
            let measured = measured.map_err(|_| format!("{name} is stuck"))?;
            let measured = measured.map_err(|e| format!("{name}: {e}"))?;
            for (figure, value) in values.iter_mut().zip(measured) {
                figure[contestant].push(value);
            }
        }
    }
    for (&(what, bars), values) in row.figures.iter().zip(values) {
        let mut figure = Figure::default();
        for (&name, values) in row.contestants.iter().zip(values) {
            let median = Some(load::median(values));
            match name {
                OURS => figure.ours = median,
                BEST => figure.best = median,
                DEFAULT => figure.default = median,
                _ => figure.raw = median,
            }
        }
        println!("{}", Line { what, bars, figure });
    }
    Ok(())
}
