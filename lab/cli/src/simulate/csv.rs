//! Results of a study as comma-separated values. Each combination of size and number of hash functions has two lines.

use std::fmt::Write as _;

use bruit_filters::counting::Extension;
use bruit_simulation::Study;

/// Column names.
const COLUMNS: &str =
    "experiment,extension,m,k,rounds,mean,std_dev,distinct_mean,distinct_std_dev,reduction_rate,reduction_std_err";

/// Returns the whole file. Numbers have full precision. If the refined extension had no wrong counts, the reduction
/// rate and its standard error are empty.
pub(super) fn text(study: &Study) -> String {
    let mut text = format!("{COLUMNS}\n");
    for experiment in &study.experiments {
        let number = experiment.experiment.number();
        for configuration in &experiment.configurations {
            let reduction = configuration.reduction_rate().zip(configuration.reduction_error());
            let reduction = reduction.map_or_else(|| ",".into(), |(rate, error)| format!("{rate},{}", rate * error));
            let (m, k) = (configuration.m, configuration.k);
            for extension in [Extension::Intuitive, Extension::Refined] {
                let result = configuration.extension(extension);
                let [rate, distinct] = [&result.rate, &result.distinct_rate]
                    .map(|moments| format!("{:e},{:e}", moments.mean(), moments.standard_deviation()));
                let rounds = study.rounds;
                writeln!(text, "{number},{extension},{m},{k},{rounds},{rate},{distinct},{reduction}")
                    .expect("writing to a string cannot fail");
            }
        }
    }
    text
}
