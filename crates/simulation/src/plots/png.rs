//! An SVG as PNG.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

/// Twice as large as the picture wants to be shown, so that it is sharp on a dense screen.
const SCALE: u8 = 2;

/// Only DejaVu Sans, from within the program: plots look the same on every machine.
static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    Arc::new(fonts)
});

/// The bytes of the file.
pub(super) fn png(svg: &str) -> Vec<u8> {
    let options = Options { fontdb: Arc::clone(&FONTS), ..Options::default() };
    let tree = Tree::from_str(svg, &options).expect("what plotters draws is SVG");
    let size = tree.size().to_int_size().scale_by(SCALE.into()).expect("a picture is not empty");
    let mut pixmap = Pixmap::new(size.width(), size.height()).expect("a picture is not larger than memory");
    resvg::render(&tree, Transform::from_scale(SCALE.into(), SCALE.into()), &mut pixmap.as_mut());
    pixmap.encode_png().expect("memory takes all bytes")
}
