use proptest::prelude::*;

use super::*;

fn constant(text: &str) -> ArrivalSchedule {
    ArrivalSchedule::parse(text, Arrivals::Constant, 1).unwrap()
}

fn arrivals_of(plan: &ArrivalSchedule, worker: u64, workers: u64) -> ArrivalCursor {
    ArrivalCursor::new(Arc::new(plan.clone()), worker, workers)
}

#[test]
fn each_stream_of_a_poisson_plan_has_times_of_its_own_and_keeps_them() {
    let plan = Arc::new(ArrivalSchedule::parse("5000", Arrivals::Poisson, 3).unwrap());
    let times = |stream| -> Vec<u64> {
        let cursor = ArrivalCursor::of_stream(Arc::clone(&plan), 0, 1, stream);
        cursor.take(100).map(|arrival| arrival.intended_ns).collect()
    };
    let plain: Vec<u64> = arrivals_of(&plan, 0, 1)
        .take(100)
        .map(|arrival| arrival.intended_ns)
        .collect();
    assert_eq!(times(0), plain);
    assert_eq!(times(7), times(7));
    assert_ne!(times(7), times(8));
}

#[test]
fn a_constant_rate_is_evenly_spaced() {
    let plan = constant("4000");
    let times: Vec<u64> = arrivals_of(&plan, 0, 1)
        .take(4)
        .map(|arrival| arrival.intended_ns)
        .collect();
    assert_eq!(times, [0, 250_000, 500_000, 750_000]);
}

#[test]
fn steps_and_ramps_follow_the_curve() {
    let steps = constant("10@1s,20@1s,40");
    assert!((steps.time_of(10.0) - 1.0).abs() < 1e-12);
    assert!((steps.time_of(30.0) - 2.0).abs() < 1e-12);
    assert!((steps.time_of(70.0) - 3.0).abs() < 1e-12);
    // From 0 to 100 in 10 s: 5 t² operations by t, then 100 a second.
    let ramp = constant("0..100@10s");
    assert!((ramp.time_of(125.0) - 5.0).abs() < 1e-12);
    assert!((ramp.time_of(600.0) - 11.0).abs() < 1e-12);
}

#[test]
fn a_sine_wave_swings_about_its_rate_and_comes_again() {
    let wave = constant("100@1s,1000~800@10s");
    // Half a period holds its mean and the whole upper half of the wave: amplitude · period / π.
    let half = 100.0 + 5.0 * 1000.0 + 800.0 * 10.0 / std::f64::consts::PI;
    assert!((wave.operations_by(6.0) - half).abs() < 1e-6);
    assert!((wave.operations_by(11.0) - 10_100.0).abs() < 1e-6);
    assert!((wave.operations_by(26.0) - (20_000.0 + half)).abs() < 1e-6);
    assert!((wave.time_of(half) - 6.0).abs() < 1e-9);
    assert!((wave.time_of(20_000.0 + half) - 26.0).abs() < 1e-9);
    let to_nothing = constant("1000~1000@10s");
    assert!((to_nothing.operations_by(to_nothing.time_of(9_999.9)) - 9_999.9).abs() < 1e-3);
}

#[test]
fn a_trace_gives_every_time_and_then_nothing() {
    let plan = ArrivalSchedule::from_trace("# from the proxy's log\n0.5\n\n0.5 # twice\n1.25\n").unwrap();
    let times: Vec<u64> = arrivals_of(&plan, 0, 1)
        .take(4)
        .map(|arrival| arrival.intended_ns)
        .collect();
    assert_eq!(times, [500_000_000, 500_000_000, 1_250_000_000, NEVER_NS]);
    assert_eq!(plan.trace_s(), Some(1.25));
    let second: Vec<u64> = arrivals_of(&plan, 1, 2)
        .take(2)
        .map(|arrival| arrival.intended_ns)
        .collect();
    assert_eq!(second, [500_000_000, NEVER_NS]);
    for (text, told) in [
        ("", "no time"),
        ("1\n0.5", "line 2"),
        ("x", "line 1"),
        ("-1", "line 1"),
        ("NaN", "line 1"),
    ] {
        assert!(ArrivalSchedule::from_trace(text).unwrap_err().contains(told), "{text}");
    }
}

#[test]
fn poisson_arrivals_have_the_rate_and_the_spread_of_the_process() {
    let plan = ArrivalSchedule::parse("1000", Arrivals::Poisson, 9).unwrap();
    let mut per_second = vec![0f64; 200];
    for arrival in arrivals_of(&plan, 0, 1) {
        match per_second.get_mut((arrival.intended_ns / 1_000_000_000) as usize) {
            Some(second) => *second += 1.0,
            None => break,
        }
    }
    let mean = per_second.iter().sum::<f64>() / 200.0;
    let variance = per_second.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0;
    assert!((mean - 1000.0).abs() < 7.0, "{mean}");
    assert!((variance / mean - 1.0).abs() < 0.4, "{}", variance / mean);
}

#[test]
fn rates_that_ask_for_nothing_or_are_no_rates_are_refused() {
    for text in [
        "0",
        "-5",
        "abc",
        "",
        "100..200",
        "100,200",
        "100@0s",
        "100..0@5s",
        "inf",
        "NaN",
        "5@x",
        "100~50",
        "100~200@5s",
        "100~-5@5s",
        "0~0@5s",
    ] {
        assert!(ArrivalSchedule::parse(text, Arrivals::Constant, 1).is_err(), "{text}");
    }
    assert!(ArrivalSchedule::parse("0", Arrivals::Constant, 1)
        .unwrap_err()
        .contains("closed loop"));
}

proptest! {
    #[test]
    fn arrivals_before_a_time_are_counted_as_a_walk_counts_them(
        workers in 1u64..5, worker in 0u64..5, passed in 0usize..50, poisson: bool, is_trace: bool,
        rate in 1.0f64..1e5, limit_ns in 0u64..20_000_000,
    ) {
        let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
        let plan = if is_trace {
            ArrivalSchedule::from_trace("0\n0.001\n0.001\n0.004\n0.015\n0.015\n0.019").unwrap()
        } else {
            ArrivalSchedule::parse(&format!("{rate}..{}@0.01s,{rate}", rate * 2.0), arrivals, 3).unwrap()
        };
        let mut cursor = arrivals_of(&plan, worker % workers, workers);
        for _ in 0..passed {
            cursor.next_arrival();
        }
        let is_before = |arrival: &Arrival| arrival.intended_ns < limit_ns;
        let walked = cursor.clone().take_while(is_before).count() as u64;
        let after = cursor.clone().find(|arrival| !is_before(arrival)).unwrap();
        prop_assert_eq!(cursor.skip_before(limit_ns), (walked, after));
        prop_assert_eq!(cursor.next_arrival().number, after.number + workers);
    }

    #[test]
    fn workers_share_the_plan_and_change_nothing(
        workers in 1u64..9, seed: u64, poisson: bool, first in 1.0f64..1e5, second in 1.0f64..1e5,
    ) {
        let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
        let plan = ArrivalSchedule::parse(&format!("{first}..{second}@0.01s"), arrivals, seed).unwrap();
        let whole: Vec<Arrival> = arrivals_of(&plan, 0, 1).take(200).collect();
        let mut shared: Vec<Arrival> =
            (0..workers).flat_map(|worker| arrivals_of(&plan, worker, workers).take(200)).collect();
        shared.sort_by_key(|arrival| arrival.number);
        prop_assert_eq!(&shared[..200], &whole[..]);
        prop_assert!(whole.windows(2).all(|pair| pair[0].intended_ns <= pair[1].intended_ns));
    }

    #[test]
    fn time_and_count_are_inverse(count in 0.0f64..1e6, start in 1.0f64..1e5, end in 1.0f64..1e5) {
        let plan = ArrivalSchedule::parse(&format!("{start}..{end}@3s"), Arrivals::Constant, 1).unwrap();
        let back = plan.operations_by(plan.time_of(count));
        prop_assert!((back - count).abs() <= 1e-6 * count.max(1.0), "{} for {}", back, count);
    }

    #[test]
    fn time_and_count_are_inverse_on_a_wave(count in 0.0f64..1e6, mean in 1.0f64..1e5, share in 0.001f64..0.999) {
        let plan = ArrivalSchedule::parse(&format!("{mean}~{}@3s", mean * share), Arrivals::Constant, 1).unwrap();
        let back = plan.operations_by(plan.time_of(count));
        prop_assert!((back - count).abs() <= 1e-6 * count.max(1.0), "{} for {}", back, count);
    }
}
