//! Plots of the results of a study, as SVG and as PNG.
//!
//! `plotters` draws the SVG, and `resvg` renders the PNG from the SVG, so both show the same picture. Almost all plots
//! are line charts in panels; their modules only supply the points.
//!
//! Equal studies yield equal bytes: the plots do not depend on the clock, the machine's fonts, or the order of a hash
//! map.

mod axis;
mod data;
mod distributions;
mod figure;
mod lines;
mod rates;

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use crate::{Experiment, Study};

/// A file with a plot of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// File name, such as `rate-experiment-4.svg`.
    pub name: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Draws every plot for which the study has data, as SVG and as PNG. A plot that would be empty is omitted.
#[must_use]
pub fn draw(study: &Study) -> Vec<Plot> {
    let files = |(stem, svg): (String, String)| {
        let png = png(&svg);
        let file = |format, bytes| Plot { name: format!("{stem}.{format}"), bytes };
        [file("svg", svg.into_bytes()), file("png", png)]
    };
    pictures(study).flat_map(files).collect()
}

/// Iterates over all plots that are not empty. Each item is the stem of the file name, and the SVG.
fn pictures(study: &Study) -> impl Iterator<Item = (String, String)> {
    let whole = [
        ("reduction-rates".to_owned(), rates::reduction_rates(study)),
        ("wrong-keys".to_owned(), distributions::wrong_keys(study)),
    ];
    let parts = study.experiments.iter().flat_map(|result| {
        let stem = |kind| stem(kind, result.experiment);
        [
            (stem("rate"), rates::rates(result, study.rounds)),
            (stem("cells"), distributions::cells(result, study.rounds)),
            (stem("growth"), rates::growth(result, study.rounds)),
        ]
    });
    parts.chain(whole).filter_map(|(stem, svg)| Some((stem, svg?)))
}

fn stem(kind: &str, experiment: Experiment) -> String {
    format!("{kind}-experiment-{}", experiment.number())
}

/// Render at twice the display size, so that the picture is sharp on a high-resolution screen.
const SCALE: u8 = 2;

/// The only font is DejaVu Sans. It is embedded in the program, so plots look the same on every machine.
static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    Arc::new(fonts)
});

/// Returns the bytes of the PNG file.
fn png(svg: &str) -> Vec<u8> {
    let options = Options { fontdb: Arc::clone(&FONTS), ..Options::default() };
    let tree = Tree::from_str(svg, &options).expect("plotters writes valid SVG");
    let size = tree.size().to_int_size().scale_by(SCALE.into()).expect("the picture is not empty");
    let mut pixmap = Pixmap::new(size.width(), size.height()).expect("the picture fits into memory");
    resvg::render(&tree, Transform::from_scale(SCALE.into(), SCALE.into()), &mut pixmap.as_mut());
    pixmap.encode_png().expect("writing to memory cannot fail")
}
