// Every kernel of every level against a plain twin, at lengths around the widths of vectors and blocks.
#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "segmax/kernels/kernels.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

constexpr std::size_t kLengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257};
constexpr std::size_t kGuards = 32;

std::size_t round_up_16(std::size_t count) {
    return (count + 15) / 16 * 16;
}

/// Calls visit with the table of every level that this CPU has and every pair of types.
template <class Visit>
void each_table(Visit visit) {
    for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2}) {
        if (!simd_level_available(level)) continue;
        NOTE("level " << simd_level_name(level));
        const auto call = [&](const auto& table, const char* types) {
            NOTE("types " << types);
            visit(table);
        };
        call(kernels<std::uint8_t, std::uint32_t>(level), "u8, u32");
        call(kernels<std::uint8_t, std::uint64_t>(level), "u8, u64");
        call(kernels<std::uint16_t, std::uint32_t>(level), "u16, u32");
        call(kernels<std::uint16_t, std::uint64_t>(level), "u16, u64");
    }
}

/// Memory to read: `count` values, then exactly `slack_bytes` of anything, then what the sanitizer watches.
template <class T>
class Input {
public:
    Input(std::size_t count, std::size_t slack_bytes, Random& random) : values_(count + slack_bytes / sizeof(T)) {
        for (T& value : values_) {
            const auto kind = draw(random, 0, 5);
            value = kind == 0 ? std::numeric_limits<T>::max() : kind == 1 ? T{0} : static_cast<T>(random());
        }
    }
    const T* data() const { return values_.data(); }
    T& operator[](std::size_t i) { return values_[i]; }
    const T& operator[](std::size_t i) const { return values_[i]; }

private:
    std::vector<T> values_;
};

/// Memory to write: `writable` values, then guards.
template <class T>
class Output {
public:
    explicit Output(std::size_t writable, T start = kGuard) : writable_(writable), values_(writable, start) {
        values_.resize(writable + kGuards, kGuard);
    }
    T* data() { return values_.data(); }
    T& operator[](std::size_t i) { return values_[i]; }
    std::vector<T> first(std::size_t count) const {
        return {values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(count)};
    }
    bool guards_are_whole() const {
        return std::all_of(values_.begin() + static_cast<std::ptrdiff_t>(writable_), values_.end(),
                           [](T value) { return value == kGuard; });
    }

private:
    static constexpr T kGuard = static_cast<T>(0xA5A5A5A5A5A5A5A5ULL);
    std::size_t writable_;
    std::vector<T> values_;
};

/// The largest weight at which `rows` largest codes still sum to what the kernels promise to hold.
template <class Code, class Acc>
std::uint32_t largest_weight(std::size_t rows) {
    if (sizeof(Acc) == 8) return kMaxQueryWeight;
    const std::uint64_t codes = std::uint64_t{std::numeric_limits<Code>::max()} * std::max<std::size_t>(rows, 1);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(kMaxQueryWeight, 0x7FFFFFFFU / codes));
}

std::uint32_t some_weight(Random& random, std::uint32_t largest) {
    const auto kind = draw(random, 0, 2);
    return kind == 0 ? 1 : kind == 1 ? largest : static_cast<std::uint32_t>(draw(random, 1, largest));
}

}  // namespace

// Portable kernels are always there, every level has a name, and the level in use is an available one.
TEST(kernels_levels) {
    CHECK(simd_level_available(SimdLevel::portable));
    CHECK(simd_level_available(simd_level()));
    CHECK_EQ(simd_level_name(SimdLevel::portable), "portable");
    CHECK_EQ(simd_level_name(SimdLevel::avx2), "avx2");
}

// weighted_rows is the exact weighted sum of any number of rows and writes no further than the next multiple of 16.
TEST(kernels_weighted_rows) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(11);
        for (const std::size_t count : kLengths) {
            for (const std::size_t num_rows : {0, 1, 2, 3, 6, 9, 257}) {
                NOTE("count " << count << ", rows " << num_rows);
                std::vector<Input<Code>> inputs;
                std::vector<const Code*> rows;
                std::vector<std::uint16_t> weights;
                std::vector<Acc> expected(count, 0);
                for (std::size_t r = 0; r < num_rows; ++r) {
                    inputs.emplace_back(count, kSlackBytes, random);
                    weights.push_back(
                        static_cast<std::uint16_t>(some_weight(random, largest_weight<Code, Acc>(num_rows))));
                    for (std::size_t i = 0; i < count; ++i) expected[i] += Acc{weights[r]} * inputs[r][i];
                }
                for (const auto& input : inputs) rows.push_back(input.data());
                Output<Acc> out(round_up_16(count));
                kernel.weighted_rows(rows.data(), weights.data(), num_rows, count, out.data());
                CHECK_EQ(out.first(count), expected);
                CHECK(out.guards_are_whole());
            }
        }
    });
}

// weighted_rows holds as many rows of largest codes and weights as 31 bits do: 257 of 8 bits, one of 16.
TEST(kernels_weighted_rows_at_the_limit) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        constexpr std::size_t count = 33;
        const std::size_t num_rows = sizeof(Code) == 1 || sizeof(Acc) == 8 ? 257 : 1;
        const std::vector<Code> row(count + kSlackBytes / sizeof(Code), std::numeric_limits<Code>::max());
        const std::vector<const Code*> rows(num_rows, row.data());
        const std::vector<std::uint16_t> weights(num_rows, kMaxQueryWeight);
        Output<Acc> out(round_up_16(count));
        kernel.weighted_rows(rows.data(), weights.data(), num_rows, count, out.data());
        const std::uint64_t sum = std::uint64_t{num_rows} * kMaxQueryWeight * std::numeric_limits<Code>::max();
        for (std::size_t i = 0; i < count; ++i) CHECK_EQ(out[i], sum);
    });
}

// add_row adds weight times row, and reads and writes nothing but its `count` entries, at any alignment.
TEST(kernels_add_row) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(12);
        for (const std::size_t count : kLengths) {
            for (const std::size_t shift : {0, 1, 5}) {
                NOTE("count " << count << ", shift " << shift);
                const Input<Code> row(count + shift, 0, random);
                Output<Acc> out(count + shift, 1000);
                const std::uint32_t weight = some_weight(random, largest_weight<Code, Acc>(1));
                std::vector<Acc> expected = out.first(count + shift);
                for (std::size_t i = 0; i < count; ++i) expected[shift + i] += Acc{weight} * row[shift + i];
                kernel.add_row(row.data() + shift, weight, count, out.data() + shift);
                CHECK_EQ(out.first(count + shift), expected);
                CHECK(out.guards_are_whole());
            }
        }
    });
}

// scatter_add adds every posting at the 16-bit difference of id and base, repeated ids too, inside one window.
TEST(kernels_scatter_add) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(13);
        for (const std::size_t count : kLengths) {
            for (const std::uint16_t base : {0, 1, 40000, 65535}) {
                NOTE("count " << count << ", base " << base);
                Input<std::uint16_t> ids(count, kSlackBytes, random);
                if (count > 2) ids[1] = ids[0];
                const Input<Code> codes(count, kSlackBytes, random);
                const std::uint32_t weight = some_weight(random, largest_weight<Code, Acc>(count));
                Output<Acc> accumulators(kWindowDocs, 0);
                std::vector<Acc> expected(kWindowDocs, 0);
                for (std::size_t i = 0; i < count; ++i) {
                    expected[(std::uint32_t{ids[i]} + kWindowDocs - base) % kWindowDocs] += Acc{weight} * codes[i];
                }
                kernel.scatter_add(ids.data(), codes.data(), count, base, weight, accumulators.data());
                CHECK(accumulators.first(kWindowDocs) == expected);
                CHECK(accumulators.guards_are_whole());
            }
        }
    });
}

// add_block_max adds the largest of each 16 sums, compared as unsigned numbers, and touches no other bound.
TEST(kernels_add_block_max) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(14);
        constexpr Acc most_before = 1U << 20;
        for (const std::size_t blocks : kLengths) {
            NOTE("blocks " << blocks);
            Input<Acc> values(blocks * kBlockDocs, 0, random);
            Output<Acc> bounds(blocks);
            std::vector<Acc> expected(blocks);
            for (std::size_t b = 0; b < blocks; ++b) {
                Acc best = 0;
                for (std::size_t i = b * kBlockDocs; i < (b + 1) * kBlockDocs; ++i) {
                    // Small, in the middle, and beyond the sign bit.
                    values[i] = b % 3 == 0 ? values[i] % 5 : values[i] / (b % 3 == 1 ? 2 : 1);
                    values[i] = std::min<Acc>(values[i], std::numeric_limits<Acc>::max() - most_before);
                    best = std::max(best, values[i]);
                }
                bounds[b] = static_cast<Acc>(draw(random, 0, most_before));
                expected[b] = bounds[b] + best;
            }
            kernel.add_block_max(values.data(), blocks, bounds.data());
            CHECK_EQ(bounds.first(blocks), expected);
            CHECK(bounds.guards_are_whole());
        }
    });
}

// collect_at_least lists exactly the indices whose value reaches the limit, whatever follows the values in memory.
TEST(kernels_collect_at_least) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(15);
        constexpr Acc max = std::numeric_limits<Acc>::max();
        for (const std::size_t count : kLengths) {
            Input<Acc> values(count, (round_up_16(count) - count) * sizeof(Acc), random);
            for (std::size_t i = count; i < round_up_16(count); ++i) values[i] = max;
            const Acc some = count == 0 ? Acc{7} : values[draw(random, 0, count - 1)];
            for (const Acc limit : {Acc{0}, Acc{1}, some, static_cast<Acc>(some + 1), max / 2 + 1, max}) {
                NOTE("count " << count << ", limit " << limit);
                std::vector<std::uint32_t> expected;
                for (std::uint32_t i = 0; i < count; ++i) {
                    if (values[i] >= limit) expected.push_back(i);
                }
                Output<std::uint32_t> out(round_up_16(count));
                const std::size_t found = kernel.collect_at_least(values.data(), count, limit, out.data());
                CHECK_EQ(out.first(std::min(found, round_up_16(count))), expected);
                CHECK(out.guards_are_whole());
            }
        }
    });
}

// count_below counts the ids below any offset from 0 to 65,536, where id minus base wraps around 16 bits too.
TEST(kernels_count_below) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(16);
        std::vector<std::size_t> lengths(std::begin(kLengths), std::end(kLengths));
        lengths.push_back(1000);
        for (const std::size_t count : lengths) {
            for (const std::uint16_t base : {0, 1, 4096, 32768, 65535}) {
                std::vector<std::uint32_t> differences(count);
                for (auto& difference : differences) {
                    difference = static_cast<std::uint32_t>(draw(random, 0, 65535));
                }
                if (count > 1) differences[0] = 0;
                if (count > 2) differences[1] = 65535;
                std::sort(differences.begin(), differences.end());
                Input<std::uint16_t> ids(count, kSlackBytes, random);
                for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::uint16_t>(differences[i] + base);
                std::vector<std::uint32_t> offsets{0, 1, 16, 32767, 32768, 65534, 65535, 65536};
                for (const std::uint32_t difference : differences)
                    offsets.insert(offsets.end(), {difference, difference + 1});
                for (const std::uint32_t offset : offsets) {
                    NOTE("count " << count << ", base " << base << ", offset " << offset);
                    const auto expected =
                        std::count_if(differences.begin(), differences.end(), [&](auto d) { return d < offset; });
                    CHECK_EQ(kernel.count_below(ids.data(), count, base, offset), expected);
                }
            }
        }
    });
}
