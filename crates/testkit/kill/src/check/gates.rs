//! What gates let through, by the ledger: at no moment more than their rules allow, and in order where order matters.
//!
//! A body runs from the line of its beginning to that of its end, of its being dropped, or of its node's death. The
//! engine lets a body go before its beginning is written and hears of its end after that is written, and lines
//! stand in the order in which they were written: what overlaps here did overlap, by no clock.

use std::time::Duration;

use super::*;
use crate::gates::{Gate, Rate, Rules, Ticket};

/// How long a run may be under way from its claim, which is what a rate counts, to its body.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// The most that was seen of what rules bound, and how many bodies a kill or a cut hit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) at_once: u32,
    pub(crate) in_a_group: u32,
    pub(crate) on_a_node: u32,
    pub(crate) in_a_span: u32,
    pub(crate) in_a_groups_span: u32,
    pub(crate) hits: u32,
}

impl Seen {
    /// Whether every rule was used to the full: only then is it known to hold.
    pub(crate) fn is_full(&self, rules: &Rules) -> bool {
        let most = |rate: Option<Rate>| rate.map(|(count, _)| count);
        let bounds = [
            (self.at_once, rules.limit),
            (self.in_a_group, rules.per_group),
            (self.on_a_node, rules.per_node),
            (self.in_a_span, most(rules.rate)),
            (self.in_a_groups_span, most(rules.rate_per_group)),
        ];
        bounds.into_iter().all(|(seen, bound)| bound.is_none_or(|bound| seen >= bound))
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seen { at_once, in_a_group, on_a_node, in_a_span, in_a_groups_span, hits } = self;
        write!(f, "at_once={at_once} in_a_group={in_a_group} on_a_node={on_a_node} ")?;
        write!(f, "in_a_span={in_a_span} in_a_groups_span={in_a_groups_span} hits={hits}")
    }
}

/// A body that a gate let through and that has not ended.
struct Open {
    ticket: Ticket,
    node: u32,
    /// The number of its run's last attempt.
    last: u32,
}

/// How far an ordered group is.
#[derive(Default)]
struct Turn {
    nth: u32,
    is_over: bool,
}

impl<'a> Checker<'a> {
    pub(super) fn gates(&mut self) {
        let lapsed = self.in_hand_at_a_lapse();
        let mut open: HashMap<u64, Open> = HashMap::new();
        let mut turns: HashMap<u64, Turn> = HashMap::new();
        let mut begins: BTreeMap<(Gate, Option<u64>), Vec<u64>> = BTreeMap::new();
        for line in &self.evidence.ledger {
            match line {
                Line::Begin(body) if !lapsed.contains(&body.value) => {
                    let Some((work, ticket)) = body.work.and_then(|work| Some((work, work.ticket?))) else {
                        continue;
                    };
                    if ticket.gate.rules().ordered {
                        self.in_turn(body.run, ticket, turns.entry(ticket.group).or_default());
                    }
                    for group in [None, Some(ticket.group)] {
                        begins.entry((ticket.gate, group)).or_default().push(body.at);
                    }
                    open.insert(body.value, Open { ticket, node: body.node, last: work.end().0 });
                    self.at_once(body, ticket, &open);
                }
                Line::End(body) => {
                    let Some(ended) = open.remove(&body.value) else {
                        self.ended_late(body, &mut turns);
                        continue;
                    };
                    if let Some(turn) = turns.get_mut(&ended.ticket.group)
                        && ended.ticket.gate.rules().ordered
                    {
                        turn.is_over |= body.attempt == ended.last;
                    }
                }
                Line::Dropped(body) => drop(open.remove(&body.value)),
                Line::Kill { node } => {
                    for (_, hit) in open.extract_if(|_, open| open.node == *node) {
                        self.verdict.gates.entry(hit.ticket.gate).or_default().hits += 1;
                    }
                }
                Line::Cut { node } => {
                    for hit in open.values().filter(|open| open.node == *node) {
                        self.verdict.gates.entry(hit.ticket.gate).or_default().hits += 1;
                    }
                }
                _ => {}
            }
        }
        for ((gate, group), times) in begins {
            self.pace(gate, group, times);
        }
    }

    /// The bodies that a node had in hand when it noticed that its lease was over, without having been killed: on a
    /// machine that stood still they may have gone on for longer than they had the right to. A node that was only cut
    /// off did not stand still, and has to drop them in time. What a stopped node was about to begin it begins as soon as it
    /// goes on, before it can look at a clock.
    fn in_hand_at_a_lapse(&self) -> HashSet<u64> {
        let (mut open, mut lapsed, mut cut) = (HashMap::new(), HashSet::new(), HashSet::new());
        let mut begun_since: HashMap<u32, Vec<u64>> = HashMap::new();
        for line in &self.evidence.ledger {
            match line {
                Line::Begin(body) => {
                    open.insert(body.value, body.node);
                    begun_since.get_mut(&body.node).into_iter().for_each(|begun| begun.push(body.value));
                }
                Line::End(body) | Line::Dropped(body) => drop(open.remove(&body.value)),
                Line::Go { node } => drop(begun_since.insert(*node, Vec::new())),
                Line::Lapse { node } if !cut.contains(node) => {
                    lapsed.extend(open.iter().filter(|(_, on)| *on == node).map(|(value, _)| *value));
                    lapsed.extend(begun_since.remove(node).into_iter().flatten());
                }
                Line::Lapse { .. } => {}
                // It has no chance to drop anything before it wakes up.
                Line::Stop { node } => {
                    lapsed.extend(open.iter().filter(|(_, on)| *on == node).map(|(value, _)| *value));
                    begun_since.remove(node);
                }
                Line::Kill { node } => {
                    open.retain(|_, on| on != node);
                    begun_since.remove(node);
                }
                Line::Cut { node } => drop(cut.insert(*node)),
                _ => {}
            }
        }
        lapsed
    }

    /// What runs at once now that this body has begun.
    fn at_once(&mut self, body: &Body, ticket: Ticket, open: &HashMap<u64, Open>) {
        let (gate, rules) = (ticket.gate, ticket.gate.rules());
        let through = || open.values().filter(|open| open.ticket.gate == gate);
        let at_once = through().count() as u32;
        let in_a_group = through().filter(|open| open.ticket.group == ticket.group).count() as u32;
        let on_a_node = through().filter(|open| open.node == body.node).count() as u32;
        let seen = self.verdict.gates.entry(gate).or_default();
        let before = *seen;
        seen.at_once = before.at_once.max(at_once);
        seen.in_a_group = before.in_a_group.max(in_a_group);
        seen.on_a_node = before.on_a_node.max(on_a_node);

        let per_group = if rules.ordered { Some(1) } else { rules.per_group };
        let bounds = [
            ("on all nodes", at_once, before.at_once, rules.limit),
            ("of one group", in_a_group, before.in_a_group, per_group),
            ("on one node", on_a_node, before.on_a_node, rules.per_node),
        ];
        for (what, now, before, bound) in bounds {
            // Told once for each number: where a limit does not hold, it does not hold often.
            if let Some(bound) = bound.filter(|bound| now > (*bound).max(before)) {
                let what = format!("{}: {now} ran at once {what}, allowed are {bound}", gate.name());
                self.wrong(body.run, format!("{what}; the last began on node {}", body.node));
            }
        }
    }

    /// A body that was in hand when its lease ended may have ended in time all the same, if nobody had taken its run yet:
    /// then the next of its group may go.
    fn ended_late(&self, body: &Body, turns: &mut HashMap<u64, Turn>) {
        let Some((work, ticket)) = body.work.and_then(|work| Some((work, work.ticket?))) else { return };
        let turn = turns.entry(ticket.group).or_default();
        if ticket.gate.rules().ordered && ticket.nth >= turn.nth {
            *turn = Turn {
                nth: ticket.nth,
                is_over: turn.is_over && ticket.nth == turn.nth || body.attempt == work.end().0,
            };
        }
    }

    /// Of an ordered group the one before has ended for good.
    fn in_turn(&mut self, run: RunId, ticket: Ticket, turn: &mut Turn) {
        let is_next = ticket.nth == turn.nth + 1 && turn.is_over;
        if ticket.nth != turn.nth && !is_next {
            let Turn { nth, is_over } = turn;
            let what = format!("number {nth} (ended: {is_over})");
            self.wrong(run, format!("{}, number {} of it, began after {what}", ticket.group(), ticket.nth));
        }
        *turn = Turn { nth: ticket.nth, is_over: false };
    }

    /// Not more began in any span than the rate allows, nor in all the time since the first.
    fn pace(&mut self, gate: Gate, group: Option<u64>, mut times: Vec<u64>) {
        let rules = gate.rules();
        let Some((count, per)) = (if group.is_some() { rules.rate_per_group } else { rules.rate }) else {
            return;
        };
        times.sort_unstable();
        let within = |span: Duration| {
            let of = |first: usize| {
                times[first..].iter().take_while(|time| **time < times[first] + micros(span)).count()
            };
            (0..times.len()).map(of).max().unwrap_or(0) as u32
        };
        let (in_a_span, for_sure) = (within(per), within(per - UNDER_WAY));
        let seen = self.verdict.gates.entry(gate).or_default();
        let most = if group.is_some() { &mut seen.in_a_groups_span } else { &mut seen.in_a_span };
        *most = in_a_span.max(*most);
        let who =
            format!("{} {}", gate.name(), group.map(|group| format!("group {group}")).unwrap_or_default());
        if for_sure > count {
            let span = per - UNDER_WAY;
            self.wrong(
                None,
                format!("{who}: {for_sure} began within {span:?}, allowed are {count} in {per:?}"),
            );
        }
        let too_soon = times.iter().zip(1_u64..).find(|(time, nth)| {
            let spans = (**time - times[0] + micros(UNDER_WAY)) / micros(per) + 1;
            *nth > spans * u64::from(count)
        });
        if let Some((time, nth)) = too_soon {
            let after = Duration::from_micros(time - times[0]);
            self.wrong(
                None,
                format!("{who}: {nth} had begun after {after:?}, allowed are {count} in {per:?}"),
            );
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
