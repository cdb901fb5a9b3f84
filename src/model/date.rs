//! The date that a chat template gets.

use std::fmt;
use std::str::FromStr;

use crate::core::error::Error;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A day of the Gregorian calendar, from 1000-01-01 to 9999-12-31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatDate {
    year: u32,
    month: u32,
    day: u32,
}

impl ChatDate {
    /// The day that begins this many days after 1970-01-01.
    ///
    /// By H. Hinnant's algorithm `civil_from_days`, which counts in eras of 400 years from
    /// March on, so that a leap day is the last of its year.
    pub fn from_days(days: u32) -> Self {
        let days = days + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let march = (5 * of_year + 2) / 153;
        let month = if march < 10 { march + 3 } else { march - 9 };
        let day = of_year - (153 * march + 2) / 5 + 1;
        Self { year: year + 400 * era + u32::from(month <= 2), month, day }
    }

    /// The day as C's `strftime` writes it, at midnight.
    ///
    /// # Errors
    /// Names a conversion that is not supported.
    pub fn format(self, format: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' => text += &self.part(chars.next())?,
                other => text.push(other),
            }
        }
        Ok(text)
    }

    fn part(self, conversion: Option<char>) -> Result<String, String> {
        let Self { year, month, day } = self;
        let month_name = MONTHS[month as usize - 1];
        let weekday = WEEKDAYS[self.weekday()];
        Ok(match conversion {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year % 100),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('e') => format!("{day:2}"),
            Some('B') => month_name.to_owned(),
            Some('b' | 'h') => month_name[..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('j') => format!("{:03}", self.day_of_year()),
            Some('F') => self.to_string(),
            Some('H' | 'M' | 'S') => "00".to_owned(),
            Some('I') => "12".to_owned(),
            Some('p') => "AM".to_owned(),
            Some('T') => "00:00:00".to_owned(),
            Some('%') => "%".to_owned(),
            other => {
                let other = other.map_or_else(String::new, String::from);
                return Err(format!(
                    "strftime_now knows %Y %y %m %d %e %B %b %h %A %a %j %F %H %M %S %I %p %T %%, \
                     not %{other}"
                ));
            }
        })
    }

    /// 0 for Monday. By Sakamoto's method.
    fn weekday(self) -> usize {
        let shift = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4][self.month as usize - 1];
        let year = self.year - u32::from(self.month < 3);
        let sunday = (year + year / 4 - year / 100 + year / 400 + shift + self.day) % 7;
        (sunday as usize + 6) % 7
    }

    fn day_of_year(self) -> u32 {
        (1..self.month).map(|month| days_in(self.year, month)).sum::<u32>() + self.day
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl FromStr for ChatDate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::setting(format!("{text:?} is no date: write YYYY-MM-DD"));
        let number = |part: &str, digits: usize| {
            let sound = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
            part.parse::<u32>().ok().filter(|_| sound).ok_or_else(bad)
        };
        let parts = text.split('-').collect::<Vec<_>>();
        let &[year, month, day] = &*parts else { return Err(bad()) };
        let date = Self { year: number(year, 4)?, month: number(month, 2)?, day: number(day, 2)? };
        let sound = date.year >= 1000
            && (1..=12).contains(&date.month)
            && (1..=days_in(date.year, date.month)).contains(&date.day);
        sound.then_some(date).ok_or_else(bad)
    }
}

impl fmt::Display for ChatDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}
