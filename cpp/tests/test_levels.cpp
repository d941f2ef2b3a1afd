// The levels of block maxima against every choice there is.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"
#include "index/levels.hpp"
#include "make_index.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

/// What rounding maxima up to these levels adds to them in all; kNever where one is above all levels.
template <class Code, class Levels>
std::uint64_t error_of(const std::vector<Code>& maxima, const Levels& levels) {
    std::uint64_t error = 0;
    for (const Code maximum : maxima) {
        std::uint64_t least = kNever;
        for (const auto level : levels) {
            if (level >= maximum) least = std::min<std::uint64_t>(least, level - maximum);
        }
        if (least == kNever) return kNever;
        error += least;
    }
    return error;
}

template <class Code>
std::vector<Code> distinct(std::vector<Code> values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
}

/// The least error by trying all sets of levels: 0 and fifteen of the maxima.
template <class Code>
std::uint64_t least_error_of_all(const std::vector<Code>& maxima) {
    const std::vector<Code> values = distinct(maxima);
    std::uint64_t best = kNever;
    const int count = static_cast<int>(std::min<std::size_t>(values.size(), 15));
    for (std::uint32_t set = 0; set < (1U << values.size()); ++set) {
        if (std::popcount(set) != count) continue;
        std::vector<Code> levels{0};
        for (std::size_t i = 0; i < values.size(); ++i) {
            if ((set >> i & 1) != 0) levels.push_back(values[i]);
        }
        if (levels.back() == values.back()) best = std::min(best, error_of(maxima, levels));
    }
    return best;
}

/// The least error with any number of distinct maxima, by trying every next lower level of every level.
template <class Code>
std::uint64_t least_error(const std::vector<Code>& maxima) {
    std::vector<Code> values = distinct(maxima);
    if (values.empty() || values[0] != 0) values.insert(values.begin(), 0);
    std::vector<std::vector<std::uint64_t>> cost(values.size(), std::vector<std::uint64_t>(values.size(), 0));
    for (std::size_t low = 0; low < values.size(); ++low) {
        for (std::size_t high = low + 1; high < values.size(); ++high) {
            for (const Code maximum : maxima) {
                if (maximum > values[low] && maximum <= values[high]) cost[low][high] += values[high] - maximum;
            }
        }
    }
    std::vector<std::uint64_t> best(values.size(), kNever);
    best[0] = 0;
    for (int level = 1; level < 16; ++level) {
        for (std::size_t high = values.size(); high-- > 1;) {
            for (std::size_t low = 0; low < high; ++low) {
                if (best[low] != kNever) best[high] = std::min(best[high], best[low] + cost[low][high]);
            }
        }
    }
    return best.back();
}

/// Ascending from 0 to the largest, and no maximum above them all.
template <class Code>
void check_promises(const std::vector<Code>& maxima, const std::array<Code, kNumLevels>& levels) {
    const Code largest = maxima.empty() ? Code{0} : *std::max_element(maxima.begin(), maxima.end());
    CHECK_EQ(levels.front(), 0);
    CHECK_EQ(levels.back(), largest);
    CHECK(std::is_sorted(levels.begin(), levels.end()));
    CHECK(error_of(maxima, levels) != kNever);
}

}  // namespace

// With few distinct maxima no choice of levels has a smaller error, and up to fifteen of them have none.
TEST(levels_are_the_best_of_all_sets) {
    Random random(61);
    each_code_type([&](auto code) {
        using Code = decltype(code);
        for (std::size_t count = 0; count <= 17; ++count) {
            for (int round = 0; round < 4; ++round) {
                std::vector<Code> values;
                while (distinct(values).size() < count) {
                    values.push_back(static_cast<Code>(draw(random, 1, round % 2 == 0 ? 30 : 255)));
                }
                std::vector<Code> maxima;
                for (const Code value : distinct(values)) {
                    maxima.insert(maxima.end(), draw(random, 1, round == 3 ? 20 : 2), value);
                }
                if (round % 2 == 1) maxima.insert(maxima.end(), 5, Code{0});
                std::shuffle(maxima.begin(), maxima.end(), random);
                NOTE("code bytes " << sizeof(Code) << ", maxima " << show(maxima));
                const auto levels = choose_levels<Code>(maxima);
                check_promises(maxima, levels);
                const std::uint64_t error = error_of(maxima, levels);
                if (count <= 15) CHECK_EQ(error, 0U);
                if (count > 0) CHECK_EQ(error, least_error_of_all(maxima));
            }
        }
    });
}

// With all values of 8 bits the error is still the least there is.
TEST(levels_of_many_maxima) {
    Random random(62);
    each_code_type([&](auto code) {
        using Code = decltype(code);
        for (const std::uint64_t largest : {15, 16, 17, 40, 255}) {
            for (const double power : {1.0, 4.0}) {
                std::vector<Code> maxima;
                for (int i = 0; i < 400; ++i) {
                    const double u = std::uniform_real_distribution<>(0, 1)(random);
                    maxima.push_back(static_cast<Code>(std::pow(u, power) * static_cast<double>(largest + 1)));
                }
                NOTE("code bytes " << sizeof(Code) << ", largest " << largest << ", power " << power);
                const auto levels = choose_levels<Code>(maxima);
                check_promises(maxima, levels);
                CHECK_EQ(error_of(maxima, levels), least_error(maxima));
            }
        }
    });
}

// 16-bit maxima are bounded as well, with an error that is near the least: at most two steps per maximum more.
TEST(levels_of_16_bits) {
    Random random(63);
    for (const std::uint64_t largest : {256, 257, 509, 510, 511, 1000, 40000, 65534, 65535}) {
        std::vector<std::uint16_t> maxima;
        for (int i = 0; i < 120; ++i) maxima.push_back(static_cast<std::uint16_t>(draw(random, 0, largest)));
        maxima.push_back(static_cast<std::uint16_t>(largest));
        NOTE("largest " << largest);
        const auto levels = choose_levels<std::uint16_t>(maxima);
        check_promises(maxima, levels);
        const std::uint64_t width = (largest + 254) / 255;
        CHECK(error_of(maxima, levels) <= least_error(maxima) + 2 * width * maxima.size());
    }
}

// The quick levels ascend from 0 to the largest maximum, and stand for about as many maxima each.
TEST(levels_made_quickly) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        Random random(7);
        for (int round = 0; round < 500; ++round) {
            std::vector<Code> maxima(draw(random, 0, 300));
            const std::uint64_t most = draw(random, 1, std::numeric_limits<Code>::max());
            for (Code& maximum : maxima) maximum = static_cast<Code>(draw(random, 1, draw(random, 1, most)));
            const auto levels = spread_levels<Code>(maxima);
            CHECK_EQ(levels[0], 0);
            CHECK(std::is_sorted(levels.begin(), levels.end()));
            CHECK(error_of(maxima, levels) != kNever);
            if (maxima.empty()) continue;
            CHECK_EQ(levels.back(), *std::max_element(maxima.begin(), maxima.end()));
            if (maxima.size() < kNumLevels) CHECK_EQ(error_of(maxima, levels), 0U);
            // No worse than one level for all.
            const std::array<Code, 2> single{0, levels.back()};
            CHECK(error_of(maxima, levels) <= error_of(maxima, single));
        }
    });
}

// Zeros alone, however many, have no level but 0.
TEST(levels_of_zeros) {
    each_code_type([](auto code) {
        using Code = decltype(code);
        for (const std::size_t count : {0U, 1U, 15U, 16U, 100U}) {
            const std::vector<Code> zeros(count, 0);
            for (const Code level : choose_levels<Code>(zeros)) CHECK_EQ(level, 0);
            for (const Code level : spread_levels<Code>(zeros)) CHECK_EQ(level, 0);
        }
    });
}
