//! Which plots there are.

use super::png::png;
use super::{cells, growth, rates, reduction, wrong_keys};
use crate::{Experiment, Study};

/// A file that shows something of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// Its name, such as `rate-experiment-4.svg`.
    pub name: String,
    /// All that is in it.
    pub bytes: Vec<u8>,
}

/// Draws every plot the study has data for, each as SVG and as PNG. A plot that would be empty is left out.
#[must_use]
pub fn draw(study: &Study) -> Vec<Plot> {
    let files = |(stem, svg): (String, String)| {
        let png = png(&svg);
        let file = |format, bytes| Plot { name: format!("{stem}.{format}"), bytes };
        [file("svg", svg.into_bytes()), file("png", png)]
    };
    pictures(study).flat_map(files).collect()
}

/// All plots that have something to show, as SVG, by the stem of their file names.
fn pictures(study: &Study) -> impl Iterator<Item = (String, String)> {
    let whole =
        [("reduction-rates".to_owned(), reduction::svg(study)), ("wrong-keys".to_owned(), wrong_keys::svg(study))];
    let parts = study.experiments.iter().flat_map(|result| {
        let stem = |kind| stem(kind, result.experiment);
        [
            (stem("rate"), rates::svg(result, study.rounds)),
            (stem("cells"), cells::svg(result, study.rounds)),
            (stem("growth"), growth::svg(result, study.rounds)),
        ]
    });
    parts.chain(whole).filter_map(|(stem, svg)| Some((stem, svg?)))
}

fn stem(kind: &str, experiment: Experiment) -> String {
    format!("{kind}-experiment-{}", experiment.number())
}
