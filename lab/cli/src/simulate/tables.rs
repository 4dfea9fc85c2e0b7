//! Results of a study as text: tables as in the paper, or a comparison with the paper's figures.

use std::io::Write;

use bruit_filters::counting::Extension;
use bruit_simulation::{
    ConfigurationResult, CountDraws, ExperimentResult, HASHES, Moments, Study, StudyOptions, paper,
};

use bruit_console::Failure;
use bruit_console::quantity::{counted, scientific};

/// Maximum difference, in standard errors, that chance normally produces.
const NEAR: f64 = 2.0;

/// Difference above which chance is not a plausible explanation.
const FAR: f64 = 4.5;

/// Prints every experiment as in the paper: both extensions, and the reduction by the refined one.
pub(super) fn print(study: &Study, options: &StudyOptions, output: &mut impl Write) -> Result<(), Failure> {
    print_options(options, output)?;
    for result in &study.experiments {
        print_title(study, result, output)?;
        print_rates(result, "False-positive rate (wrong insertions)", |result| &result.rate, output)?;
        if result.experiment.number() > 3 {
            print_rates(result, "Share of distinct keys with a wrong count", |result| &result.distinct_rate, output)?;
        }
        print_reductions(result, output)?;
    }
    writeln!(output, "Try next: bruit-lab simulate --compare, --plots DIR, or bruit-lab simulate custom --help")?;
    Ok(())
}

/// Prints the options that affect the figures.
fn print_options(options: &StudyOptions, output: &mut impl Write) -> Result<(), Failure> {
    let counts = match options.counts {
        CountDraws::AsPaper => "like the paper's in each round",
        CountDraws::Free => "freely in each round",
        CountDraws::Once => "freely, once for all rounds",
    };
    writeln!(output, "Seed {}, {} hash functions, counts drawn {counts}\n", options.seed, options.family)?;
    Ok(())
}

fn print_title(study: &Study, result: &ExperimentResult, output: &mut impl Write) -> Result<(), Failure> {
    let (number, counts, order) = (result.experiment.number(), result.experiment.counts(), result.experiment.order());
    let rounds = counted(study.rounds, "round");
    writeln!(output, "Experiment {number}: {counts}, {order}; {rounds}\n")?;
    Ok(())
}

/// Prints a table for each extension.
fn print_rates(
    result: &ExperimentResult,
    title: &str,
    rate: impl Fn(&bruit_simulation::ExtensionResult) -> &Moments,
    output: &mut impl Write,
) -> Result<(), Failure> {
    for extension in [Extension::Intuitive, Extension::Refined] {
        writeln!(output, "  {title}, {extension} extension")?;
        print_heads(output, 22)?;
        writeln!(output, "    size m{}", "    mean       std. dev.".repeat(HASHES.len()))?;
        print_rows(result, output, |configuration| {
            let moments = rate(configuration.extension(extension));
            format!("    {:<9}  {:<9}", scientific(moments.mean()), scientific(moments.standard_deviation()))
        })?;
    }
    Ok(())
}

fn print_reductions(result: &ExperimentResult, output: &mut impl Write) -> Result<(), Failure> {
    writeln!(output, "  Reduction rate (intuitive / refined)")?;
    print_heads(output, 8)?;
    print_rows(result, output, |configuration| {
        let rate = configuration.reduction_rate().map_or_else(|| "-".into(), |rate| format!("{rate:.3}"));
        format!("    {rate:<6}")
    })
}

/// Prints the column names, each `width` wide.
fn print_heads(output: &mut impl Write, width: usize) -> Result<(), Failure> {
    let heads: String = HASHES.iter().map(|k| format!("    k = {k:<width$}", width = width - 6)).collect();
    writeln!(output, "          {}", heads.trim_end())?;
    Ok(())
}

/// Prints a line for each size, with a cell for each number of hash functions.
fn print_rows(
    result: &ExperimentResult,
    output: &mut impl Write,
    cell: impl Fn(&ConfigurationResult) -> String,
) -> Result<(), Failure> {
    for row in result.configurations.chunks(HASHES.len()) {
        let cells: String = row.iter().map(&cell).collect();
        writeln!(output, "    {:<6}{}", size(row[0].m), cells.trim_end())?;
    }
    writeln!(output)?;
    Ok(())
}

/// Formats a size as in the paper: `80K`.
fn size(m: u64) -> String {
    format!("{}K", m / 1000)
}

/// Prints every mean and reduction rate of the paper beside ours, then a conclusion.
pub(super) fn print_comparison(study: &Study, options: &StudyOptions, output: &mut impl Write) -> Result<(), Failure> {
    print_options(options, output)?;
    let (mut means, mut reductions) = (Vec::new(), Vec::new());
    for result in &study.experiments {
        print_title(study, result, output)?;
        compare_means(result, &mut means, output)?;
        compare_reductions(result, &mut reductions, output)?;
    }
    print_verdict("means", &means, output)?;
    print_verdict("reduction rates", &reductions, output)?;
    if study.rounds < paper::ROUNDS {
        writeln!(
            output,
            "With so few rounds, the rarest errors do not occur, and the standard errors are unreliable."
        )?;
    }
    Ok(())
}

/// A difference in standard errors, and its place in the tables.
type Difference = (f64, String);

fn compare_means(
    result: &ExperimentResult,
    differences: &mut Vec<Difference>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    writeln!(output, "  extension  size m  k   ours       std. dev.  paper      std. dev.  difference")?;
    for extension in [Extension::Intuitive, Extension::Refined] {
        for configuration in &result.configurations {
            let (m, k) = (configuration.m, configuration.k);
            let rate = &configuration.extension(extension).rate;
            let Some(figure) = paper::find(result.experiment, extension, m, k) else { continue };
            let distance = figure.distance(rate);
            let [ours, deviation, theirs, their_deviation] =
                [rate.mean(), rate.standard_deviation(), figure.mean, figure.standard_deviation].map(scientific);
            let size = size(m);
            let row = format!("{extension:<9}  {size:<6}  {k}   {ours:<9}  {deviation:<9}");
            writeln!(output, "  {row}  {theirs:<9}  {their_deviation:<9}  {distance:+6.2} s.e.{}", mark(distance))?;
            let place = format!("experiment {}, {extension}, m = {size}, k = {k}", result.experiment.number());
            differences.push((distance, place));
        }
    }
    writeln!(output)?;
    Ok(())
}

fn compare_reductions(
    result: &ExperimentResult,
    differences: &mut Vec<Difference>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    writeln!(output, "  reduction  size m  k   ours       std. err.  paper      std. err.  difference")?;
    for configuration in &result.configurations {
        let (m, k, size) = (configuration.m, configuration.k, size(configuration.m));
        let Some(reduction) = paper::find_reduction(result.experiment, m, k) else { continue };
        let (ours, theirs) = (configuration.reduction_rate(), reduction.rate);
        let [our_error, their_error] = [configuration.reduction_error(), reduction.error(configuration)];
        let row = [ours, absolute(ours, our_error), theirs, absolute(theirs, their_error)]
            .map(|number| number.map_or_else(|| "-".into(), |number| format!("{number:.3}")));
        let [ours, our_error, theirs, their_error] = row;
        write!(output, "             {size:<6}  {k}   {ours:<9}  {our_error:<9}  {theirs:<9}  {their_error:<9}  ")?;
        match reduction.distance(configuration) {
            Some(distance) => {
                writeln!(output, "{distance:+6.2} s.e.{}", mark(distance))?;
                let place = format!("experiment {}, m = {size}, k = {k}", result.experiment.number());
                differences.push((distance, place));
            }
            None => writeln!(output, "     -")?,
        }
        print_slip(reduction, output)?;
    }
    writeln!(output)?;
    Ok(())
}

/// Converts a relative error to an absolute one.
fn absolute(rate: Option<f64>, error: Option<f64>) -> Option<f64> {
    Some(rate? * error?)
}

/// Prints a note if a rate in the paper does not follow from the means in the paper.
fn print_slip(reduction: &paper::Reduction, output: &mut impl Write) -> Result<(), Failure> {
    if let Some(quotient) = reduction.from_means().filter(|_| !reduction.is_quotient()) {
        writeln!(output, "             (an error in the paper: its own means give {quotient:.3})")?;
    }
    Ok(())
}

/// Returns a mark for a large difference, otherwise an empty string.
fn mark(distance: f64) -> &'static str {
    match distance.abs() {
        distance if distance > FAR => "  <<",
        distance if distance > NEAR => "  <",
        _ => "",
    }
}

fn print_verdict(what: &str, differences: &[Difference], output: &mut impl Write) -> Result<(), Failure> {
    let within = |limit: f64| differences.iter().filter(|(distance, _)| distance.abs() <= limit).count();
    let all = differences.len();
    let near = within(NEAR);
    writeln!(output, "{near} of {all} {what} differ from the paper's by at most {NEAR} standard errors")?;
    writeln!(output, "of the difference, and {} of {all} by at most {FAR}.", within(FAR))?;
    if let Some((distance, place)) = differences.iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs())) {
        writeln!(output, "The largest difference is {distance:+.2}: {place}.")?;
    }
    Ok(())
}
