//! Choices that a seed decides (SplitMix64).

pub struct Dice(u64);

impl Dice {
    /// The choices of one actor: another row for each.
    pub fn new(seed: u64, actor: u64) -> Self {
        Self(seed ^ actor.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// One of `low..high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low)
    }

    /// True so often in a hundred.
    pub fn percent(&mut self, often: u64) -> bool {
        self.between(0, 100) < often
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.between(0, from.len() as u64) as usize])
    }
}
