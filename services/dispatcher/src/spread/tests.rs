use super::*;
use proptest::prelude::*;
use proptest::sample::subsequence;
use std::collections::{BTreeSet, VecDeque};
use uuid::Uuid;

const AFTER: Duration = Duration::from_secs(30);
/// Between two looks of a dispatcher.
const LOOK: Duration = Duration::from_secs(2);

fn load(number: u128, slots: u64, in_hand: usize) -> Load {
    Load { session: SessionId(Uuid::from_u128(number)), connection: 1, slots, in_hand, settled: true }
}

/// Looks again and again at the same, for so many seconds; who was sent away, and after how many seconds.
fn sent(spread: &mut Spread, own: &[Load], others: &[u64], start: Instant, seconds: u64) -> Vec<(u128, u64)> {
    let look = |second| {
        let load = spread.look(own, others, start + Duration::from_secs(second))?;
        Some((load.session.0.as_u128(), second))
    };
    (0..=seconds).step_by(2).filter_map(look).collect()
}

#[test]
fn what_lasts_moves_one_worker_and_after_a_pause_the_next() {
    let own: Vec<Load> = (1..=4).map(|number| load(number, 16, 0)).collect();
    let start = Instant::now();
    let mut spread = Spread::new(Some(AFTER));
    assert_eq!(sent(&mut spread, &own, &[0], start, 28), []);
    assert_eq!(sent(&mut spread, &own, &[0], start + AFTER, 12), [(1, 0), (2, 6), (3, 12)]);
    let mut never = Spread::new(None);
    assert_eq!(sent(&mut never, &own, &[0], start, 600), []);
}

#[test]
fn an_imbalance_that_pauses_or_that_nobody_looked_at_begins_anew() {
    let own: Vec<Load> = (1..=4).map(|number| load(number, 16, 0)).collect();
    let start = Instant::now();
    let at = |second| start + Duration::from_secs(second);
    for what in ["a balance", "a failed look", "a standstill"] {
        let mut spread = Spread::new(Some(AFTER));
        assert_eq!(sent(&mut spread, &own, &[0], start, 26), []);
        match what {
            "a balance" => assert_eq!(spread.look(&own, &[64], at(28)), None),
            "a failed look" => spread.interrupted(),
            _ => assert_eq!(spread.look(&own, &[0], at(37)), None),
        }
        assert_eq!(sent(&mut spread, &own, &[0], at(38), 28), [], "{what}");
        assert_eq!(sent(&mut spread, &own, &[0], at(68), 0), [(1, 0)], "{what}");
    }
}

/// Who is chosen of workers with so many slots and runs each.
fn chosen(own: &[(u64, usize)], others: &[u64]) -> Option<usize> {
    let own: Vec<Load> = (0..).zip(own).map(|(number, (slots, runs))| load(number, *slots, *runs)).collect();
    let chosen = Spread::new(Some(AFTER)).choose(&own, others, Instant::now())?;
    own.iter().position(|load| *load == chosen)
}

#[test]
fn a_worker_goes_only_if_it_leaves_a_share_behind() {
    assert_eq!(chosen(&[(16, 0)], &[0]), None, "an only worker");
    assert_eq!(chosen(&[(16, 0), (16, 0)], &[16]), None);
    assert_eq!(chosen(&[(16, 0), (16, 0)], &[0]), Some(0));
    assert_eq!(chosen(&[(16, 0), (16, 0)], &[]), None, "there is nobody else");
    assert_eq!(chosen(&[(100, 0), (1, 0)], &[0]), Some(1), "the large one is the share");
    assert_eq!(chosen(&[(1, 0), (1, 0)], &[2, 2, 2, 0]), None, "somebody must have two");
    assert_eq!(chosen(&[(1, 0); 3], &[u64::MAX, u64::MAX]), None);
}

#[test]
fn the_worker_with_the_fewest_runs_goes_and_the_largest_of_these() {
    assert_eq!(chosen(&[(8, 2), (8, 1), (8, 3), (8, 1)], &[0]), Some(1));
    assert_eq!(chosen(&[(4, 1), (8, 1), (8, 3), (8, 3)], &[0]), Some(1));
    let unheard = Load { settled: false, ..load(1, 16, 0) };
    let own = [unheard, load(2, 16, 5), load(3, 16, 6)];
    let chosen = Spread::new(Some(AFTER)).choose(&own, &[0], Instant::now());
    assert_eq!(chosen, Some(own[1]), "who has only just come may not hear");
}

#[test]
fn a_worker_that_comes_back_is_left_alone_for_longer_and_longer() {
    let own = [load(1, 16, 0), load(2, 16, 0)];
    let mut spread = Spread::new(Some(AFTER));
    let all = sent(&mut spread, &own, &[0], Instant::now(), 86_400);
    for session in [1, 2] {
        let times: Vec<u64> =
            all.iter().filter(|(of, _)| *of == session).map(|(_, second)| *second).collect();
        let minutes: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]) / 60).collect();
        assert!(times.len() <= 8, "sent away {} times in a day", times.len());
        assert_eq!(minutes[..4], [10, 20, 40, 80], "session {session}");
    }
    assert!(spread.sent.len() == 2);
}

#[test]
fn others_go_before_one_that_has_come_back() {
    let own: Vec<Load> = (1..=8).map(|number| load(number, 16, 0)).collect();
    let mut spread = Spread::new(Some(AFTER));
    let all = sent(&mut spread, &own, &[0], Instant::now(), 3_600);
    let first: Vec<u128> = all.iter().take(8).map(|(session, _)| *session).collect();
    assert_eq!(first, (1..=8).collect::<Vec<_>>());
}

/// A worker with its list of dispatchers, and where in it it is.
#[derive(Debug, Clone)]
struct Worker {
    slots: u64,
    list: Vec<usize>,
    place: usize,
    in_hand: usize,
    /// Between two dispatchers for as many looks.
    away: u32,
}

impl Worker {
    fn at(&self) -> Option<usize> {
        (self.away == 0).then(|| self.list[self.place])
    }
}

/// Some dispatchers and workers, seen by a list that is two looks old.
#[derive(Debug)]
struct World {
    now: Instant,
    spreads: Vec<Spread>,
    workers: Vec<Worker>,
    shown: VecDeque<Vec<u64>>,
    /// Who was sent away by whom.
    moves: Vec<(usize, usize)>,
}

impl World {
    fn new(dispatchers: usize, workers: Vec<Worker>) -> Self {
        let spreads = (0..dispatchers).map(|_| Spread::new(Some(AFTER))).collect();
        Self { now: Instant::now(), spreads, workers, shown: VecDeque::new(), moves: Vec::new() }
    }

    fn here(&self, dispatcher: usize) -> Vec<Load> {
        let here = self.workers.iter().enumerate().filter(|(_, worker)| worker.at() == Some(dispatcher));
        here.map(|(number, worker)| load(number as u128, worker.slots, worker.in_hand)).collect()
    }

    fn slots(&self) -> Vec<u64> {
        let slots = |dispatcher| self.here(dispatcher).iter().map(|load| load.slots).sum();
        (0..self.spreads.len()).map(slots).collect()
    }

    /// Every dispatcher looks once, all at the same list.
    fn look(&mut self) {
        self.shown.push_back(self.slots());
        if self.shown.len() > 2 {
            self.shown.pop_front();
        }
        self.workers.iter_mut().for_each(|worker| worker.away = worker.away.saturating_sub(1));
        for dispatcher in 0..self.spreads.len() {
            let own = self.here(dispatcher);
            let mut others = self.shown[0].clone();
            others.remove(dispatcher);
            if let Some(load) = self.spreads[dispatcher].look(&own, &others, self.now) {
                let number = usize::try_from(load.session.0.as_u128()).expect("an index");
                let worker = &mut self.workers[number];
                worker.place = (worker.place + 1) % worker.list.len();
                worker.away = 1;
                self.moves.push((dispatcher, number));
            }
        }
        self.now += LOOK;
    }

    /// Looks until nobody has moved for longer than anybody waits; false when there was no end to it.
    fn settles(&mut self) -> bool {
        // Each dispatcher sends each of its workers once, with pauses, one dispatcher after the other.
        let most = (AFTER + PAUSE * u32::try_from(self.workers.len()).expect("few")) * 8;
        let (began, mut quiet, mut moves) = (self.now, 0, 0);
        while self.now < began + most {
            self.look();
            quiet = if self.moves.len() == moves { quiet + 1 } else { 0 };
            moves = self.moves.len();
            if LOOK * quiet > (AFTER + PAUSE) * 2 {
                return true;
            }
        }
        false
    }
}

/// So many dispatchers at most, and workers that know all of them in an order of their own, or the same for all.
fn any_world(dispatchers_max: usize, alike: bool) -> impl Strategy<Value = World> {
    (2..=dispatchers_max).prop_flat_map(move |dispatchers| {
        let all: Vec<usize> = (0..dispatchers).collect();
        let list = if alike { Just(all).boxed() } else { Just(all).prop_shuffle().boxed() };
        let slots = if alike { Just(16).boxed() } else { (1_u64..=64).boxed() };
        let worker = (slots, list, 0..dispatchers, 0_usize..5)
            .prop_map(|(slots, list, place, in_hand)| Worker { slots, list, place, in_hand, away: 0 });
        proptest::collection::vec(worker, 0..24).prop_map(move |workers| World::new(dispatchers, workers))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn like_workers_come_to_be_spread_as_evenly_as_they_can_and_then_stay(mut world in any_world(6, true)) {
        prop_assert!(world.settles(), "{:?}", world.moves);
        let most = world.workers.len().div_ceil(world.spreads.len()) as u64 * 16;
        prop_assert!(world.slots().iter().all(|slots| *slots <= most), "{:?}", world.slots());
        for number in 0..world.workers.len() {
            let times = world.moves.iter().filter(|(_, moved)| *moved == number).count();
            prop_assert!(times < world.spreads.len(), "never round to where it was: {:?}", world.moves);
        }
    }

    #[test]
    fn unlike_workers_come_to_a_rest_in_which_no_one_has_a_whole_worker_too_many(mut world in any_world(6, false)) {
        prop_assert!(world.settles(), "{:?}", world.moves);
        let slots = world.slots();
        let all: u64 = slots.iter().sum();
        for (dispatcher, slots) in slots.iter().enumerate() {
            let smallest = world.here(dispatcher).iter().map(|load| load.slots).min().unwrap_or(0);
            let without = (slots - smallest) * world.spreads.len() as u64;
            prop_assert!(without < all || all == 0, "{:?}, {} at least", world.slots(), smallest);
        }
    }

    #[test]
    fn of_two_dispatchers_only_one_ever_sends(mut world in any_world(2, false)) {
        prop_assert!(world.settles());
        let senders: BTreeSet<usize> = world.moves.iter().map(|(sender, _)| *sender).collect();
        prop_assert!(senders.len() <= 1, "{:?}", world.moves);
    }

    #[test]
    fn workers_that_know_only_some_of_the_dispatchers_are_not_sent_around(
        lists in proptest::collection::vec(subsequence(vec![0_usize, 1, 2, 3], 1..=3), 1..12)
    ) {
        let worker = |list: Vec<usize>| Worker { slots: 4, list, place: 0, in_hand: 0, away: 0 };
        let mut world = World::new(4, lists.into_iter().map(worker).collect());
        // An hour.
        (0..1_800).for_each(|_| world.look());
        for dispatcher in 0..4 {
            for number in 0..world.workers.len() {
                let times = world.moves.iter().filter(|moved| **moved == (dispatcher, number)).count();
                prop_assert!(times <= 3, "{} times in an hour: {:?}", times, world.moves);
            }
        }
    }
}
