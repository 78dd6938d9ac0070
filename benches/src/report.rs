//! What a run found: each figure with the raw limit beside it, as a table or as JSON. Never rounds a miss up to a hit.

use std::fmt::Write as _;

use serde::Serialize;

/// One measured figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// The value.
    pub(crate) measured: Amount,
    /// What the machine allows at best, measured in the same run.
    pub(crate) raw: Option<Raw>,
    /// Measured over raw; for a rate the median of the rounds' own ratios.
    pub(crate) ratio: Option<f64>,
    /// What it must be.
    pub(crate) target: Target,
    /// Whether it is; `None` when nothing was promised.
    pub(crate) met: Option<bool>,
    /// What else a reader should know: spread, percentiles, sizes.
    pub(crate) note: String,
}

/// A value and its unit.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Amount {
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// A raw limit.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Raw {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) amount: Amount,
}

/// What a figure must be.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// Measured over raw, at least.
    RatioAtLeast(f64),
    /// The value itself, at least.
    AtLeast(f64),
    /// The value itself, less than this.
    Below(f64),
    /// Shown for orientation.
    Nothing,
}

impl Amount {
    pub(crate) const fn of(value: f64, unit: &'static str) -> Self {
        Self { value, unit }
    }

    fn text(self) -> String {
        let decimals = if self.value.abs() < 10.0 {
            2
        } else {
            usize::from(self.value.abs() < 100.0)
        };
        format!("{:.decimals$} {}", self.value, self.unit)
    }
}

impl Figure {
    /// A figure whose ratio is simply its value over the raw limit.
    pub(crate) fn new(
        name: impl Into<String>,
        measured: Amount,
        raw: Option<(&str, Amount)>,
        target: Target,
        note: impl Into<String>,
    ) -> Self {
        let raw = raw.map(|(name, amount)| Raw {
            name: name.to_owned(),
            amount,
        });
        let ratio = raw
            .as_ref()
            .filter(|raw| raw.amount.unit == measured.unit && raw.amount.value > 0.0)
            .map(|raw| measured.value / raw.amount.value);
        let figure = Self {
            name: name.into(),
            measured,
            raw,
            ratio,
            target,
            met: None,
            note: note.into(),
        };
        figure.judged()
    }

    /// The same with a ratio that was measured round by round.
    pub(crate) fn with_ratio(mut self, ratio: f64) -> Self {
        self.ratio = Some(ratio);
        self.judged()
    }

    fn judged(mut self) -> Self {
        self.met = match self.target {
            Target::RatioAtLeast(least) => Some(self.ratio.is_some_and(|ratio| ratio >= least)),
            Target::AtLeast(least) => Some(self.measured.value >= least),
            Target::Below(most) => Some(self.measured.value < most),
            Target::Nothing => None,
        };
        self
    }

    fn target_text(&self) -> String {
        match self.target {
            Target::RatioAtLeast(least) => format!("ratio >= {least}"),
            Target::AtLeast(least) => format!(">= {least} {}", self.measured.unit),
            Target::Below(most) => format!("< {most} {}", self.measured.unit),
            Target::Nothing => "-".to_owned(),
        }
    }
}

/// The table of Markdown that `docs/performance.md` holds.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut text = String::from(
        "| figure | measured | raw limit in the same run | ratio | target | met |\n|---|---|---|---|---|---|\n",
    );
    for figure in figures {
        let raw = figure.raw.as_ref().map_or_else(
            || "-".to_owned(),
            |raw| format!("{} ({})", raw.amount.text(), raw.name),
        );
        let ratio = figure
            .ratio
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let met = match figure.met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "-",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {raw} | {ratio} | {} | {met} |",
            figure.name,
            figure.measured.text(),
            figure.target_text()
        );
    }
    let notes: Vec<&Figure> = figures.iter().filter(|figure| !figure.note.is_empty()).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for figure in notes {
        let _ = writeln!(text, "- {}: {}", figure.name, figure.note);
    }
    text
}

/// Samples of one kind, for medians and percentiles.
#[derive(Debug, Default, Clone)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn add(&mut self, sample: f64) {
        self.0.push(sample);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest sample that at least `share` of all do not exceed; NaN when there is none, which meets no target.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let count = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
        let rank = (f64::from(count) * share).ceil().max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank between 1 and the number of samples"
        )]
        let place = (rank as usize).saturating_sub(1);
        sorted.get(place).or(sorted.last()).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(0.5)
    }

    pub(crate) fn worst(&self) -> f64 {
        self.percentile(1.0)
    }

    /// "from 0.71 to 0.93", for a note.
    pub(crate) fn spread(&self) -> String {
        format!("{:.2} to {:.2}", self.percentile(0.0), self.worst())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples(values.to_vec())
    }

    #[test]
    fn a_percentile_is_the_sample_that_so_many_do_not_exceed() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (share, expected) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!(
                (samples(&hundred).percentile(share) - expected).abs() < f64::EPSILON,
                "{share}"
            );
        }
        assert!((samples(&[7.0]).percentile(0.99) - 7.0).abs() < f64::EPSILON);
        assert!(samples(&[]).median().is_nan());
    }

    #[test]
    fn a_figure_that_could_not_be_measured_meets_nothing() {
        for target in [Target::Below(20.0), Target::RatioAtLeast(0.5)] {
            let nothing = Amount::of(f64::NAN, "ms");
            let figure = Figure::new("x", nothing, Some(("y", Amount::of(1.0, "ms"))), target, "");
            assert_eq!(figure.met, Some(false), "{target:?}");
        }
    }

    #[test]
    fn a_target_is_met_from_its_own_side_only() {
        let figure = |value: f64, target| {
            Figure::new(
                "x",
                Amount::of(value, "/s"),
                Some(("y", Amount::of(100.0, "/s"))),
                target,
                "",
            )
            .met
        };
        assert_eq!(figure(70.0, Target::RatioAtLeast(0.7)), Some(true));
        assert_eq!(figure(69.9, Target::RatioAtLeast(0.7)), Some(false));
        assert_eq!(figure(19.9, Target::Below(20.0)), Some(true));
        assert_eq!(figure(20.0, Target::Below(20.0)), Some(false));
        assert_eq!(figure(20.0, Target::Nothing), None);
    }

    #[test]
    fn the_table_says_no_aloud() {
        let miss = Figure::new(
            "rate",
            Amount::of(1.0, "/s"),
            Some(("raw", Amount::of(2.0, "/s"))),
            Target::RatioAtLeast(0.7),
            "n",
        );
        let table = table(&[miss]);
        assert!(
            table.contains("| rate | 1.00 /s | 2.00 /s (raw) | 0.50 | ratio >= 0.7 | **no** |"),
            "{table}"
        );
        assert!(table.contains("- rate: n"), "{table}");
    }
}
