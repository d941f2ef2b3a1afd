#include "index/levels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace segmax {

namespace {

/// More than any sum of errors, and still safe to add to.
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max() / 2;

/// The values to choose from, ascending, with how many maxima each stands for.
struct Steps {
    std::vector<std::uint64_t> value{0}, count{0};
};

/// Chooses `levels` of the steps so that rounding up costs least, by dynamic programming over the largest step that is
/// covered. The best previous level never falls as the step rises, so each row is solved by halving.
class LevelChoice {
public:
    explicit LevelChoice(const Steps& steps) : value_(steps.value), count_(value_.size()), sum_(value_.size()) {
        for (std::size_t i = 1; i < value_.size(); ++i) {
            count_[i] = count_[i - 1] + steps.count[i];
            sum_[i] = sum_[i - 1] + steps.count[i] * value_[i];
        }
    }

    /// best_[i] is the least cost of rounding the steps up to i with the levels so far, step i being the last of them;
    /// `from` remembers the level before, so that the choice can be read off backwards.
    std::vector<std::uint64_t> choose(std::size_t levels) {
        const std::size_t size = value_.size();
        best_.assign(size, kNever);
        best_[0] = 0;
        std::vector<std::vector<std::size_t>> from;
        for (std::size_t level = 1; level < levels; ++level) {
            next_.assign(size, kNever);
            from_.assign(size, 0);
            solve(1, size, 0, size);
            best_ = next_;
            from.push_back(from_);
        }
        std::vector<std::uint64_t> chosen;
        std::size_t at = size - 1;
        for (std::size_t level = from.size(); level-- > 0 && at > 0;) {
            chosen.push_back(value_[at]);
            at = from[level][at];
        }
        std::reverse(chosen.begin(), chosen.end());
        return chosen;
    }

private:
    /// What rounding the steps (low, high] up to step `high` costs.
    std::uint64_t cost(std::size_t low, std::size_t high) const {
        return (count_[high] - count_[low]) * value_[high] - (sum_[high] - sum_[low]);
    }

    /// Fills next_[begin, end), knowing that the best previous level is in [low, high).
    void solve(std::size_t begin, std::size_t end, std::size_t low, std::size_t high) {
        if (begin >= end) return;
        const std::size_t middle = begin + (end - begin) / 2;
        std::size_t best = low;
        for (std::size_t previous = low; previous < std::min(middle, high); ++previous) {
            const std::uint64_t total = best_[previous] >= kNever ? kNever : best_[previous] + cost(previous, middle);
            if (total < next_[middle]) {
                next_[middle] = total;
                best = previous;
            }
        }
        from_[middle] = best;
        solve(begin, middle, low, best + 1);
        solve(middle + 1, end, best, high);
    }

    const std::vector<std::uint64_t>& value_;
    std::vector<std::uint64_t> count_, sum_;
    std::vector<std::uint64_t> best_, next_;
    std::vector<std::size_t> from_;
};

}  // namespace

template <class Code>
std::array<Code, kNumLevels> choose_levels(std::span<const Code> maxima) {
    constexpr std::uint32_t kMostSteps = 255;
    const std::uint32_t largest = maxima.empty() ? 0 : *std::max_element(maxima.begin(), maxima.end());
    const std::uint32_t width = std::max((largest + kMostSteps - 1) / kMostSteps, 1U);
    std::array<std::uint64_t, kMostSteps + 1> count{};
    std::array<std::uint64_t, kMostSteps + 1> top{};
    for (const Code maximum : maxima) {
        if (maximum == 0) continue;
        // A step stands for the largest maximum in it, so that nothing is ever rounded down.
        const std::size_t step = (maximum + width - 1) / width;
        ++count[step];
        top[step] = std::max<std::uint64_t>(top[step], maximum);
    }
    Steps steps;
    for (std::size_t step = 1; step <= kMostSteps; ++step) {
        if (count[step] == 0) continue;
        steps.value.push_back(top[step]);
        steps.count.push_back(count[step]);
    }
    std::vector<std::uint64_t> chosen = steps.value;
    if (steps.value.size() > kNumLevels) {
        chosen = LevelChoice(steps).choose(kNumLevels);
        chosen.insert(chosen.begin(), 0);
    }
    std::array<Code, kNumLevels> levels;
    for (std::size_t i = 0; i < kNumLevels; ++i) {
        levels[i] = static_cast<Code>(i < chosen.size() ? chosen[i] : largest);
    }
    return levels;
}

template <class Code>
std::array<Code, kNumLevels> spread_levels(std::span<const Code> maxima) {
    constexpr std::uint32_t kMostSteps = 255;
    const std::uint32_t largest = maxima.empty() ? 0 : *std::max_element(maxima.begin(), maxima.end());
    const std::uint32_t width = std::max((largest + kMostSteps - 1) / kMostSteps, 1U);
    std::array<Code, kNumLevels> levels;
    levels.fill(static_cast<Code>(largest));
    levels[0] = 0;
    if (maxima.size() < kNumLevels) {  // every one is a level
        std::copy(maxima.begin(), maxima.end(), levels.begin() + 1);
        std::sort(levels.begin() + 1, levels.begin() + 1 + static_cast<std::ptrdiff_t>(maxima.size()));
        return levels;
    }
    std::array<std::uint32_t, kMostSteps + 1> count{};
    for (const Code maximum : maxima) ++count[(maximum + width - 1) / width];
    const std::uint32_t num_steps = (largest + width - 1) / width;
    std::uint64_t left = maxima.size() - count[0];
    std::uint64_t group = 0;
    std::size_t level = 1;
    for (std::uint32_t step = 1; step <= num_steps && level < kNumLevels; ++step) {
        group += count[step];
        if (count[step] == 0 || group * (kNumLevels - level) < left) continue;
        levels[level++] = static_cast<Code>(std::min(step * width, largest));
        left -= group;
        group = 0;
    }
    return levels;
}

template std::array<std::uint8_t, kNumLevels> spread_levels(std::span<const std::uint8_t>);
template std::array<std::uint16_t, kNumLevels> spread_levels(std::span<const std::uint16_t>);
template std::array<std::uint8_t, kNumLevels> choose_levels(std::span<const std::uint8_t>);
template std::array<std::uint16_t, kNumLevels> choose_levels(std::span<const std::uint16_t>);

}  // namespace segmax
