//! The progress numbers of a call.

use super::*;

//
#[test]
fn numbers_rise_strictly_whatever_the_tool_says() {
    enum Say {
        Event,
        Number(f64),
    }
    use Say::{Event, Number};
    let table: &[(&str, &[(Say, &str)])] = &[
        (
            "plain",
            &[
                (Number(0.0), "0"),
                (Number(50.0), "50"),
                (Number(100.0), "100"),
            ],
        ),
        (
            "equal",
            &[
                (Number(5.0), "5"),
                (Number(5.0), "6"),
                (Number(5.5), "7"),
                (Number(8.0), "8"),
            ],
        ),
        (
            "falling",
            &[
                (Number(50.0), "50"),
                (Number(10.0), "51"),
                (Number(51.5), "51.5"),
            ],
        ),
        (
            "mixed with events",
            &[
                (Event, "1"),
                (Number(0.5), "2"),
                (Number(2.5), "2.5"),
                (Event, "3"),
                (Number(100.0), "100"),
                (Event, "101"),
            ],
        ),
        (
            "negative",
            &[
                (Number(-5.0), "-5"),
                (Number(-7.0), "-4"),
                (Number(-3.5), "-3.5"),
                (Event, "-3"),
            ],
        ),
        (
            "no number",
            &[
                (Number(f64::NAN), "1"),
                (Number(f64::INFINITY), "2"),
                (Number(f64::NEG_INFINITY), "3"),
                (Number(f64::MAX), "4"),
                (Event, "5"),
                (Number(f64::NAN), "6"),
            ],
        ),
        (
            "fractions",
            &[
                (Number(0.25), "0.25"),
                (Number(0.25), "1"),
                (Number(1.25), "1.25"),
            ],
        ),
        (
            "too large for whole steps",
            &[
                (Number(4503599627370496.0), "4503599627370496"),
                (Event, "4503599627370497"),
                (Number(1e300), "4503599627370498"),
                (Event, "4503599627370499"),
            ],
        ),
    ];
    for (case, said) in table {
        let outbox = outbox(1 << 16);
        for (say, _) in *said {
            match say {
                Event => pushed(&outbox, ""),
                Number(n) => {
                    assert_eq!(
                        outbox.push_progress(*n, None, SILENT).unwrap(),
                        Pushed::Done
                    );
                }
            }
        }
        let numbers = numbers(&chunk(&outbox).unwrap());
        let expected: Vec<&str> = said.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, expected, "{case}");
    }
}

#[test]
fn a_progress_has_its_total_and_its_message() {
    let outbox = outbox(1 << 16);
    let word = Some(|out: &mut Vec<u8>| {
        out.extend_from_slice(b"half");
        Ok(())
    });
    assert_eq!(
        outbox.push_progress(50.0, Some(100.0), word).unwrap(),
        Pushed::Done
    );
    assert_eq!(
        outbox.push_progress(60.0, Some(f64::NAN), SILENT).unwrap(),
        Pushed::Done
    );
    assert_eq!(drained(&outbox), ["50 100 half", "60"]);
}
