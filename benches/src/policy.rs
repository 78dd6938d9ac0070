//! What a decision from loaded layers costs with few and with many grants, beside Cedar on the same question. Never counts the making of the policy into a decision.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use muster_policy::{
    Action, Decision, Effect, Grant, Layer, Needs, Policy, Resource, Scope, ScopeKind, Standing, Target,
    decide,
};

use crate::report::{Amount, Figure, Samples, Target as Wanted};

const SIZES: [usize; 3] = [10, 1_000, 10_000];
/// Calls asked in turn, so that no answer is at hand because it was just given.
const CALLS: usize = 4_096;
/// Long enough for the clock, short enough that few batches are interrupted.
const BATCH: usize = 1_024;

/// The figures over `time` each.
pub(crate) fn run(time: Duration) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for size in SIZES {
        let (policy, making) = made(size)?;
        let calls = calls(size)?;
        let known = measure(time, || calls.iter().cycle(), |needs| ours(&policy, needs))?;
        let texts: Vec<String> = (0..CALLS).map(|call| connection(place(call, size))).collect();
        let anew = measure(time, || texts.iter().cycle(), |text| ours(&policy, &needs(text)?))?;
        figures.push(Figure::new(
            format!("decision from loaded layers, {size} grants in each of three"),
            Amount::of(known.median(), "ns"),
            None,
            Wanted::Below(250.0),
            format!(
                "median of {} batches of {BATCH}, p99 {:.0} ns; {:.0} ns when what the call names is read from text first; each call names another of {} connections; the three layers take {making:.2} ms to make",
                known.len(),
                known.percentile(0.99),
                anew.median(),
                size.min(CALLS)
            ),
        ));
        #[cfg(feature = "cedar")]
        if size == 10 {
            figures.push(cedar::beside(&known, size, time)?);
        }
    }
    Ok(figures)
}

fn connection(number: usize) -> String {
    format!("connection-{number:05}")
}

/// The connection that a call names: another each time, without an order that a cache could guess.
const fn place(call: usize, size: usize) -> usize {
    call.wrapping_mul(2_654_435_761) % size
}

fn layer(size: usize) -> Result<Layer> {
    let grants: Result<Vec<Grant>> = (0..size)
        .map(|number| {
            Ok(Grant {
                action: Action::DbRead,
                scope: Scope::One(Resource::new(ScopeKind::DbConnection, &connection(number))?),
                effect: Effect::Allow,
            })
        })
        .collect();
    Ok(Layer::authored(grants?)?)
}

/// Three layers, each made by itself as it would be loaded, and how many milliseconds all three take.
fn made(size: usize) -> Result<(Policy, f64)> {
    let mut samples = Samples::default();
    for _ in 0..9 {
        let one = Instant::now();
        black_box((layer(size)?, layer(size)?, layer(size)?));
        samples.add(one.elapsed().as_secs_f64() * 1e3);
    }
    Ok((
        Policy::new(layer(size)?, layer(size)?, layer(size)?),
        samples.median(),
    ))
}

fn needs(id: &str) -> Result<Needs> {
    let resource = Resource::new(ScopeKind::DbConnection, id)?;
    Ok(Needs::of(Action::DbRead, Target::new(resource)?))
}

fn calls(size: usize) -> Result<Vec<Needs>> {
    (0..CALLS)
        .map(|call| needs(&connection(place(call, size))))
        .collect()
}

fn ours(policy: &Policy, needs: &Needs) -> Result<bool> {
    Ok(matches!(
        black_box(decide(Standing::Under(policy), needs)),
        Decision::Allow(_)
    ))
}

/// Nanoseconds per call, batch by batch, over all of `calls` in turn.
fn measure<C, I: Iterator<Item = C>>(
    time: Duration,
    calls: impl FnOnce() -> I,
    decide: impl Fn(C) -> Result<bool>,
) -> Result<Samples> {
    let (mut samples, mut calls, begun) = (Samples::default(), calls(), Instant::now());
    while begun.elapsed() < time {
        let one = Instant::now();
        for _ in 0..BATCH {
            let call = calls.next().context("there is no call to decide")?;
            if !decide(call)? {
                bail!("a call was refused that every layer allows");
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
        samples.add(one.elapsed().as_secs_f64() * 1e9 / BATCH as f64);
    }
    Ok(samples)
}

#[cfg(feature = "cedar")]
mod cedar {
    //! The same grants as Cedar policies: one `permit` for each, in one layer only, which is the lighter question.

    use std::fmt::Write as _;
    use std::str::FromStr as _;

    use cedar_policy::{Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request};

    use super::{Amount, CALLS, Duration, Figure, Result, Samples, Wanted, connection, measure, place};

    pub(super) fn beside(ours: &Samples, size: usize, time: Duration) -> Result<Figure> {
        let mut text = String::new();
        for number in 0..size {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "permit(principal == Agent::\"a\", action == Action::\"db_read\", resource == Connection::\"{}\");",
                connection(number)
            );
        }
        let policies = PolicySet::from_str(&text)?;
        let (authorizer, entities) = (Authorizer::new(), Entities::empty());
        let requests: Result<Vec<Request>> = (0..CALLS)
            .map(|call| {
                let named = format!("Connection::\"{}\"", connection(place(call, size)));
                Ok(Request::new(
                    EntityUid::from_str("Agent::\"a\"")?,
                    EntityUid::from_str("Action::\"db_read\"")?,
                    EntityUid::from_str(&named)?,
                    Context::empty(),
                    None,
                )?)
            })
            .collect();
        let requests = requests?;
        let theirs = measure(
            time,
            || requests.iter().cycle(),
            |request| {
                let response = authorizer.is_authorized(request, &policies, &entities);
                Ok(response.decision() == Decision::Allow)
            },
        )?;
        Ok(Figure::new(
            format!("how many times as long Cedar takes, {size} grants"),
            Amount::of(theirs.median() / ours.median(), "times"),
            None,
            Wanted::AtLeast(40.0),
            format!(
                "Cedar {:.0} ns, muster {:.0} ns, medians; Cedar with {size} permits and one layer, muster with three layers of {size}",
                theirs.median(),
                ours.median()
            ),
        ))
    }
}
