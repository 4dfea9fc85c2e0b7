//! Measures a simulated cluster in compressed time, and prints its figures in one line:
//! `scale --shape mesh|broker|leaf|relays --nodes 64 --seconds 10 --rate 10 --seed 1`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;

use bruit_federation::simulation::scale::{Figures, Settings, Shape, run};

fn main() -> ExitCode {
    let before = cpu_seconds();
    match settings().and_then(|settings| Ok((settings, run(settings)?))) {
        Ok((settings, figures)) => {
            print(settings, &figures, cpu_seconds() - before);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::from(2)
        }
    }
}

fn settings() -> Result<Settings, String> {
    let mut settings = Settings { nodes: 16, shape: Shape::Broker, seconds: 10, rate: 10, seed: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option}: expected a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{option}: {value:?} is not a number"));
        match option.as_str() {
            "--shape" => settings.shape = shape(&value)?,
            "--nodes" => settings.nodes = number()? as usize,
            "--seconds" => settings.seconds = number()?,
            "--rate" => settings.rate = number()?,
            "--seed" => settings.seed = number()?,
            _ => return Err(format!("unknown option {option:?}")),
        }
    }
    Ok(settings)
}

fn shape(name: &str) -> Result<Shape, String> {
    match name {
        "mesh" => Ok(Shape::Mesh),
        "broker" => Ok(Shape::Broker),
        "leaf" => Ok(Shape::Leaf),
        "relays" => Ok(Shape::Relays),
        _ => Err(format!("--shape: unknown shape {name:?}; expected mesh, broker, leaf or relays")),
    }
}

/// Returns the processor time of this process so far, or 0 where the system does not report it.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e9)
}

fn print(settings: Settings, figures: &Figures, cpu: f64) {
    let Settings { nodes, shape, seconds, rate, .. } = settings;
    let node_seconds = nodes as f64 * seconds as f64;
    let each = |total: u64| total as f64 / node_seconds;
    let percentile = |share: f64| {
        let last = figures.visible_ms.len().saturating_sub(1) as f64;
        figures.visible_ms.get((last * share) as usize).copied().unwrap_or(0)
    };
    let [half, most] = [0.5, 0.99].map(percentile);
    println!(
        "{shape:?}, {nodes} nodes, {seconds} s, {rate} reports/s and node, heads of {} bytes, history in {} s",
        figures.heads_length,
        figures.settled_ms / 1_000
    );
    println!(
        "  visible on all nodes: p50 {half} ms, p99 {most} ms, {} reports, {} not visible",
        figures.visible_ms.len(),
        figures.invisible
    );
    println!(
        "  per node per second: {:.1} offers, {:.1} heads received, {:.0} B heads sent, {:.1} logs ({:.1} empty), {:.0} B segments sent, {:.0} B to the broker",
        each(figures.offers),
        each(figures.received),
        each(figures.heads_bytes),
        each(figures.logs),
        each(figures.empty),
        each(figures.segment_bytes),
        each(figures.published_bytes)
    );
    println!(
        "  per entry: {:.1} B signed, {:.1} B sent to each other node; {} entries",
        figures.signed_bytes as f64 / figures.entries.max(1) as f64,
        figures.segment_bytes as f64 / (figures.entries.max(1) as f64 * (nodes - 1) as f64),
        figures.entries
    );
    println!(
        "  between regions: {:.0} B/s; processor time of the whole run {cpu:.1} s",
        figures.far_bytes as f64 / seconds as f64
    );
}
