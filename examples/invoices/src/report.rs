//! The numbers: what was promised for each act, and what was counted. Pure.

use crate::billing::Count;
use serde::Serialize;
use std::collections::BTreeMap;

/// What an act must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Promise {
    /// The fewest invoices of one customer and occurrence.
    pub least: i64,
    /// The most.
    pub most: i64,
    /// Whether something must have been refused.
    pub refusal: bool,
}

/// One act's numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub act: &'static str,
    pub customers: usize,
    pub occurrences: usize,
    pub invoices: i64,
    /// The fewest invoices that one customer got for one occurrence.
    pub least: i64,
    /// The most.
    pub most: i64,
    /// Late writes that were refused.
    pub refused: u64,
    pub promised: Promise,
    pub kept: bool,
}

impl Row {
    /// The numbers of an act: `counts` of `customers` customers for these occurrences.
    pub fn new(
        act: &'static str,
        customers: usize,
        occurrences: &[String],
        counts: &[Count],
        refused: u64,
        promised: Promise,
    ) -> Self {
        let known: BTreeMap<(&str, &str), i64> =
            counts.iter().map(|it| ((&*it.occurrence, &*it.customer), it.invoices)).collect();
        let each = occurrences.iter().flat_map(|occurrence| {
            let known = &known;
            crate::billing::customers(customers)
                .map(move |customer| known.get(&(&**occurrence, &*customer)).copied().unwrap_or(0))
        });
        let each: Vec<i64> = each.collect();
        let least = each.iter().min().copied().unwrap_or(0);
        let most = each.iter().max().copied().unwrap_or(0);
        let kept = (least, most) == (promised.least, promised.most) && (refused > 0) == promised.refusal;
        let (invoices, occurrences) = (each.iter().sum(), occurrences.len());
        Self { act, customers, occurrences, invoices, least, most, refused, promised, kept }
    }
}

/// The table for people.
pub fn table(rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "{:<58} {:>11} {:>9} {:>8} {:>9} {:>8} {:>7}",
        "", "OCCURRENCES", "CUSTOMERS", "INVOICES", "FOR EACH", "PROMISED", "REFUSED"
    )];
    let range = |least: i64, most: i64| {
        if least == most { least.to_string() } else { format!("{least} to {most}") }
    };
    for row in rows {
        lines.push(format!(
            "{:<58} {:>11} {:>9} {:>8} {:>9} {:>8} {:>7}{}",
            row.act,
            row.occurrences,
            row.customers,
            row.invoices,
            range(row.least, row.most),
            range(row.promised.least, row.promised.most),
            row.refused,
            if row.kept { "" } else { "  NOT AS PROMISED" },
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Promise = Promise { least: 1, most: 1, refusal: false };

    fn row(counts: &[(&str, &str, i64)], refused: u64, promised: Promise) -> Row {
        let counts: Vec<Count> = counts
            .iter()
            .map(|&(occurrence, customer, invoices)| Count {
                occurrence: occurrence.to_owned(),
                customer: customer.to_owned(),
                invoices,
            })
            .collect();
        Row::new("act", 2, &["a".to_owned(), "b".to_owned()], &counts, refused, promised)
    }

    const WHOLE: [(&str, &str, i64); 4] =
        [("a", "customer-1", 1), ("a", "customer-2", 1), ("b", "customer-1", 1), ("b", "customer-2", 1)];

    #[test]
    fn one_for_each_is_kept() {
        let row = row(&WHOLE, 0, ONE);
        assert!(row.kept, "{row:?}");
        assert_eq!((row.invoices, row.least, row.most), (4, 1, 1));
    }

    #[test]
    fn one_too_few_or_too_many_is_not_kept_and_shows() {
        assert!(!row(&WHOLE[1..], 0, ONE).kept, "a customer got none");
        let mut doubled = WHOLE;
        doubled[3].2 = 2;
        let doubled = row(&doubled, 0, ONE);
        assert!(!doubled.kept);
        assert!(table(&[doubled]).contains("1 to 2"));
    }

    #[test]
    fn a_refusal_must_be_there_exactly_when_it_was_promised() {
        let refused = Promise { refusal: true, ..ONE };
        assert!(!row(&WHOLE, 0, refused).kept && row(&WHOLE, 1, refused).kept);
        assert!(!row(&WHOLE, 1, ONE).kept);
    }
}
