//! Output of `bruit-lab flows`, as text and JSON.

use std::io::Write;

use bruit_forensics::flows::{Band, CounterView, FlowEstimate, Identity, Key};
use bruit_forensics::packet::Tally;
use serde_json::{Map, Value, json};

use super::{FlowsArgs, Run};
use bruit_console::failure::{Failure, bad_input};
use bruit_console::quantity::{counted, grouped, human_bytes};
use bruit_console::terminal::printable;

/// Fill level above which the filter is too small for its input.
const FILL_MAX: f64 = 0.5;

pub(super) fn print(run: &mut Run, arguments: &FlowsArgs, output: &mut impl Write) -> Result<(), Failure> {
    let left_out = LeftOut::of(run);
    let (key, unopened) = (run.key, run.unopened);
    let report = Report { key, left_out, unopened, counted: run.counter.counted() };
    let top = report.listed(arguments).map_err(bad_input)?;
    if arguments.json {
        return Ok(writeln!(output, "{:#}", report.json(&top))?);
    }
    report.print_summary(output)?;
    report.print_flows(&top, arguments.exact, output)?;
    report.print_errors(output)
}

/// Numbers of items that were not counted, by reason.
struct LeftOut(Vec<(String, u64)>);

impl LeftOut {
    fn of(run: &Run) -> Self {
        let mut reasons: Vec<_> = run.undecoded.iter().map(|(reason, count)| (reason.to_string(), count)).collect();
        if run.without_sender > 0 {
            reasons.push(("no sender".into(), run.without_sender));
        }
        Self(reasons)
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

struct Report<'c> {
    key: Key,
    left_out: LeftOut,
    unopened: Tally,
    counted: CounterView<'c>,
}

impl Report<'_> {
    /// Returns the requested flows, or the largest ones.
    fn listed(&self, arguments: &FlowsArgs) -> Result<Vec<FlowEstimate>, String> {
        if arguments.flows.is_empty() {
            return Ok(self.counted.top(arguments.top as usize));
        }
        let flow = |text: &String| {
            let identity = Identity::parse(self.key, text).map_err(|error| format!("--flow {text:?}: {error}"))?;
            Ok(self.counted.flow(identity.as_bytes()))
        };
        arguments.flows.iter().map(flow).collect()
    }

    fn thing(&self) -> &'static str {
        if self.key.is_of_mail() { "message" } else { "packet" }
    }

    fn print_summary(&self, output: &mut impl Write) -> Result<(), Failure> {
        let memory = self.counted.memory();
        row(output, &format!("{}s", self.thing()), &grouped(self.counted.packets()))?;
        if self.left_out.total() > 0 {
            let reasons: Vec<_> = self.left_out.0.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            row(output, "left out", &format!("{} ({})", grouped(self.left_out.total()), reasons.join(", ")))?;
        }
        if self.unopened.total() > 0 {
            let text = format!("{} counted by their outer packet ({})", grouped(self.unopened.total()), self.unopened);
            row(output, "not opened", &text)?;
        }
        row(output, "memory: filter", &human_bytes(memory.filter))?;
        row(output, "memory: names", &human_bytes(memory.leaders))?;
        let fill = self.counted.fill();
        let advice = if fill > FILL_MAX { ": more memory would improve the estimates" } else { "" };
        row(output, "fill of the filter", &format!("{:.1} %{advice}", fill * 100.0))?;
        if let Some(exact) = self.counted.exact() {
            row(output, "memory: exact counts", &human_bytes(memory.exact))?;
            row(output, "flows", &grouped(exact.flows() as u64))?;
            if exact.packets_left_out() > 0 {
                let text =
                    format!("{} of other flows (the table is full)", counted(exact.packets_left_out(), self.thing()));
                row(output, "not counted exactly", &text)?;
            }
        }
        Ok(())
    }

    fn print_flows(&self, flows: &[FlowEstimate], is_exact: bool, output: &mut impl Write) -> Result<(), Failure> {
        let exact_head = if is_exact { "      exact    error" } else { "" };
        writeln!(output, "\n   estimate          95 % interval{exact_head}  flow")?;
        for flow in flows {
            let estimate = &flow.estimate;
            let interval = format!("{} to {}", whole(estimate.low), whole(estimate.high));
            write!(output, "{:>11} {interval:>22}", whole(estimate.likely))?;
            if is_exact {
                let exact = flow.exact.map_or_else(|| "-".into(), grouped);
                let error = error(flow).map_or_else(|| "-".into(), percent);
                write!(output, "{exact:>11} {error:>8}")?;
            }
            writeln!(output, "  {}", printable(&self.key.describe(&flow.identity)))?;
        }
        Ok(())
    }

    fn print_errors(&self, output: &mut impl Write) -> Result<(), Failure> {
        let bands = self.counted.errors();
        if bands.is_empty() {
            return Ok(());
        }
        writeln!(output, "\n{:>23}      flows  mean error     bias  in the interval", format!("{}s", self.thing()))?;
        for band in bands {
            let sizes = format!("{} to {}", grouped(band.from), grouped(band.to));
            let (flows, error, bias) = (grouped(band.flows), unsigned_percent(band.mean_error), percent(band.bias));
            let covered = unsigned_percent(band.covered);
            writeln!(output, "{sizes:>23} {flows:>10} {error:>11} {bias:>8} {covered:>16}")?;
        }
        match self.counted.exact() {
            Some(exact) if exact.packets_left_out() > 0 => Ok(writeln!(
                output,
                "This table covers only the flows that were seen first; the errors of the others are unknown."
            )?),
            _ => Ok(()),
        }
    }

    fn json(&self, flows: &[FlowEstimate]) -> Value {
        let memory = self.counted.memory();
        let left_out: Map<String, Value> =
            self.left_out.0.iter().map(|(reason, count)| (reason.clone(), json!(count))).collect();
        let unopened: Map<String, Value> =
            self.unopened.iter().map(|(reason, count)| (reason.to_string(), json!(count))).collect();
        let mut value = json!({
            "key": self.key.to_string(),
            (format!("{}s", self.thing())): self.counted.packets(),
            "left_out": left_out,
            "unopened": unopened,
            "memory": { "filter": memory.filter, "names": memory.leaders, "exact": memory.exact },
            "fill": self.counted.fill(),
            "flows": flows.iter().map(|flow| self.flow_json(flow)).collect::<Vec<_>>(),
        });
        if let Some(exact) = self.counted.exact() {
            let errors: Vec<_> = self.counted.errors().iter().map(band_json).collect();
            value["exact"] = json!({ "flows": exact.flows(), "left_out": exact.packets_left_out(), "errors": errors });
        }
        value
    }

    fn flow_json(&self, flow: &FlowEstimate) -> Value {
        let estimate = &flow.estimate;
        let mut value = json!({
            "flow": self.key.describe(&flow.identity),
            "estimate": estimate.likely,
            "mean_estimate": estimate.mean,
            "low": estimate.low,
            "high": estimate.high,
        });
        if let Some(exact) = flow.exact {
            value["exact"] = json!(exact);
        }
        value
    }
}

fn band_json(band: &Band) -> Value {
    json!({
        "from": band.from,
        "to": band.to,
        "flows": band.flows,
        "mean_error": band.mean_error,
        "bias": band.bias,
        "in_interval": band.covered,
    })
}

fn row(output: &mut impl Write, label: &str, value: &str) -> Result<(), Failure> {
    Ok(writeln!(output, "{label:<22}{value}")?)
}

fn whole(number: f64) -> String {
    grouped(number.round() as u64)
}

/// Returns the relative error of an estimate.
fn error(flow: &FlowEstimate) -> Option<f64> {
    let exact = flow.exact? as f64;
    Some(flow.estimate.likely / exact - 1.0)
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn unsigned_percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
