//! Columns over time, in characters.
//!
//! Invariant: no line is wider than was said, and a column that is not empty is never drawn as if it were.

use crate::number::grouped;
use chrono::{DateTime, TimeDelta, Timelike, Utc};

/// Lines of the picture itself.
const HEIGHT: u64 = 8;
/// Columns for the numbers at the left and the line beside them.
const MARGIN: usize = 10;
/// Between a time and the next one.
const GAP: usize = 2;
/// Distances between the times that are written, in seconds.
const STEPS: [i64; 16] =
    [5, 10, 15, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800];

/// Which characters draw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Blocks in eighths.
    Blocks,
    /// ASCII alone.
    Plain,
}

impl Style {
    /// An empty cell, and fuller ones up to a full one.
    const fn cells(self) -> &'static [char] {
        match self {
            Self::Blocks => &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Plain => &[' ', '.', '#'],
        }
    }

    /// The line at the left, its corner, and the line below.
    const fn frame(self) -> (char, char, char) {
        match self {
            Self::Blocks => ('│', '└', '─'),
            Self::Plain => ('|', '+', '-'),
        }
    }
}

/// A stretch of time, and how high it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// When it begins.
    pub at: DateTime<Utc>,
    /// Its height.
    pub runs: u64,
}

/// A picture.
pub struct Chart<'a> {
    /// In order.
    pub columns: &'a [Column],
    /// From one to the next.
    pub bucket: TimeDelta,
    /// Characters that a line has at most.
    pub width: usize,
    /// How it is drawn.
    pub style: Style,
}

impl Chart<'_> {
    /// How many columns fit.
    pub const fn columns(width: usize) -> usize {
        width.saturating_sub(MARGIN)
    }

    /// The picture from its top, the times below it.
    pub fn lines(&self) -> Vec<String> {
        // The API has fewer columns than a narrow terminal only to a limit: the latest are left out then.
        let columns = &self.columns[..self.columns.len().min(Self::columns(self.width))];
        let top = columns.iter().map(|column| column.runs).max().unwrap_or(0).max(1);
        let wide = (Self::columns(self.width) / columns.len().max(1)).max(1);
        let (side, corner, base) = self.style.frame();
        let row = |row: u64| {
            let drawn =
                columns.iter().map(|column| std::iter::repeat_n(self.cell(column.runs, top, row), wide));
            let drawn: String = drawn.flatten().collect();
            format!("{:>8} {side}{}", axis(row, top), drawn.trim_end())
        };
        let mut lines: Vec<String> = (0..HEIGHT).rev().map(row).collect();
        let base: String = std::iter::repeat_n(base, columns.len() * wide).collect();
        lines.push(format!("{:>8} {corner}{base}", 0));
        lines.push(format!("{:MARGIN$}{}", "", self.times(columns, wide)).trim_end().to_owned());
        lines
    }

    /// How much of a cell is filled, counted from the bottom.
    fn cell(&self, runs: u64, top: u64, row: u64) -> char {
        let cells = self.style.cells();
        let full = cells.len() as u64 - 1;
        // Rounded up, so that a single run among thousands is seen.
        let level = (u128::from(runs) * u128::from(HEIGHT * full)).div_ceil(u128::from(top)) as u64;
        let filled = level.saturating_sub(row * full).min(full);
        cells.get(filled as usize).copied().unwrap_or(' ')
    }

    /// The times of some columns, each below its own.
    fn times(&self, columns: &[Column], wide: usize) -> String {
        let bucket = self.bucket.num_seconds().max(1);
        let fits = |step: &i64| {
            let cells = usize::try_from(step / bucket).unwrap_or(0) * wide;
            step % bucket == 0 && cells >= label(DateTime::UNIX_EPOCH, *step).len().max(5) + GAP
        };
        let Some(step) = STEPS.into_iter().find(fits) else { return String::new() };
        let width = columns.len() * wide;
        let mut line = String::new();
        for (place, column) in
            columns.iter().enumerate().filter(|(_, column)| column.at.timestamp() % step == 0)
        {
            let text = label(column.at, step);
            if place * wide >= line.len() && place * wide + text.len() <= width {
                line = format!("{line:0$}{text}", place * wide);
            }
        }
        line
    }
}

/// The number beside a row: at the top and in the middle.
fn axis(row: u64, top: u64) -> String {
    match row + 1 {
        HEIGHT => grouped(top),
        row if row * 2 == HEIGHT && top.is_multiple_of(2) => grouped(top / 2),
        _ => String::new(),
    }
}

/// A time, or the day that begins there.
fn label(at: DateTime<Utc>, step: i64) -> String {
    let format = match step {
        ..60 => "%H:%M:%S",
        _ if at.num_seconds_from_midnight() == 0 => "%m-%d",
        _ => "%H:%M",
    };
    at.format(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(from: &str, bucket: i64, runs: &[u64]) -> Vec<Column> {
        let from: DateTime<Utc> = from.parse().expect("an instant");
        let column = |(place, runs): (usize, &u64)| Column {
            at: from + TimeDelta::seconds(bucket * place as i64),
            runs: *runs,
        };
        runs.iter().enumerate().map(column).collect()
    }

    fn drawn(columns: &[Column], bucket: i64, width: usize, style: Style) -> Vec<String> {
        Chart { columns, bucket: TimeDelta::seconds(bucket), width, style }.lines()
    }

    #[test]
    fn columns_are_drawn_to_scale() {
        let mut runs = [0; 48];
        (runs[0], runs[4], runs[5], runs[24], runs[47]) = (1, 10_000, 5_000, 2_500, 1);
        let columns = columns("2026-11-29T22:00:00Z", 1_800, &runs);
        let expected = [
            "  10,000 |    #",
            "         |    #",
            "         |    #",
            "         |    #",
            "   5,000 |    ##",
            "         |    ##",
            "         |    ##                  #",
            "         |.   ##                  #                      .",
            "       0 +------------------------------------------------",
            "              11-30       06:00       12:00       18:00",
        ];
        let lines = drawn(&columns, 1_800, 60, Style::Plain);
        assert_eq!(lines, expected, "\n{}", lines.join("\n"));
        let blocks = drawn(&columns, 1_800, 60, Style::Blocks);
        assert_eq!(blocks[0], "  10,000 │    █");
        assert_eq!(blocks[7], "         │▁   ██                  █                      ▁");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_narrow_pictures_are_stretched() {
        for (count, bucket, width) in
            [(70, 1_200, 80), (24, 3_600, 80), (60, 1, 80), (8, 86_400, 40), (10, 60, 12), (100, 60, 200)]
        {
            let runs: Vec<u64> = (0..count).collect();
            let columns = columns("2026-11-29T00:00:00Z", bucket, &runs);
            for style in [Style::Blocks, Style::Plain] {
                let lines = drawn(&columns, bucket, width, style);
                let widest = lines.iter().map(|line| line.chars().count()).max();
                assert!(widest <= Some(width), "{count} in {width}: {lines:#?}");
                assert!(lines[..9].iter().all(|line| style == Style::Blocks || line.is_ascii()));
            }
        }
        let stretched = drawn(&columns("2026-11-29T00:00:00Z", 3_600, &[1, 0, 1]), 3_600, 30, Style::Plain);
        assert_eq!(stretched[7], "         |######      ######");
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        let lines = drawn(&columns("2026-11-29T00:00:00Z", 60, &[0; 10]), 60, 40, Style::Blocks);
        assert_eq!(lines[7], "         │");
    }
}
