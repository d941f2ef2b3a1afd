// Every kernel of every level against a plain twin, at lengths around the widths of vectors and blocks.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "check.hpp"
#include "kernels/kernels.hpp"
#include "make_index.hpp"

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
    for (const SimdLevel level : kSimdLevels) {
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

/// The level of every block of a row of tiles: in a span, byte j holds block j low and block 16 + j high.
std::vector<std::uint8_t> unpack_levels(const std::uint8_t* bytes, std::size_t num_tiles) {
    std::vector<std::uint8_t> levels;
    for (std::size_t span = 0; span < num_tiles * kTileSpans; ++span) {
        for (const unsigned shift : {0U, 4U}) {
            for (std::size_t j = 0; j < kSpanBytes; ++j) {
                levels.push_back(static_cast<std::uint8_t>((bytes[span * kSpanBytes + j] >> shift) & 15U));
            }
        }
    }
    return levels;
}

template <class Code>
struct PlainPosting {
    std::uint32_t place;
    Code code;
};

/// That many postings at distinct places below `limit`, ascending. Codes are mostly large.
template <class Code>
std::vector<PlainPosting<Code>> some_postings(std::size_t count, std::uint32_t limit, Random& random) {
    std::vector<std::uint32_t> places(limit);
    std::iota(places.begin(), places.end(), 0U);
    std::shuffle(places.begin(), places.end(), random);
    std::sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<PlainPosting<Code>> postings;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t code = std::numeric_limits<Code>::max() - draw(random, 0, 200);
        postings.push_back({places[i], static_cast<Code>(code)});
    }
    return postings;
}

template <class Code>
void append_code(std::vector<std::uint8_t>& bytes, Code code) {
    for (std::size_t i = 0; i < sizeof(Code); ++i) bytes.push_back(static_cast<std::uint8_t>(code >> (8 * i)));
}

/// The bytes of a run, as docs/format.md says.
template <class Code>
std::vector<std::uint8_t> encode_run(const std::vector<PlainPosting<Code>>& postings) {
    std::vector<std::uint8_t> bytes;
    if (postings.size() <= 32) {
        for (const auto& posting : postings) bytes.push_back(static_cast<std::uint8_t>(posting.place));
    } else {
        bytes.resize(32);
        for (const auto& [place, code] : postings) bytes[place / 8] |= static_cast<std::uint8_t>(1U << (place % 8));
    }
    for (const auto& posting : postings) append_code(bytes, posting.code);
    return bytes;
}

void add_slack(std::vector<std::uint8_t>& bytes, Random& random) {
    for (std::size_t i = 0; i < kSlackBytes; ++i) bytes.push_back(static_cast<std::uint8_t>(random()));
}

constexpr std::size_t kRunSizes[] = {0, 1, 2, 7, 8, 31, 32, 33, 34, 63, 64, 65, 100, 255, 256};

/// The entries of a tail term, owned, each array followed by slack, and the postings they stand for.
template <class Code>
struct OwnedEntries {
    std::uint32_t zone_first;
    std::vector<std::uint16_t> blocks;  // from there
    std::vector<std::uint32_t> group_start;
    std::vector<std::uint8_t> masks;
    std::vector<Code> maxima, codes;
    std::vector<PlainPosting<Code>> postings;
    std::uint32_t num_entries = 0, num_codes = 0;

    /// So many entries among the blocks [first_block, end_block), the first of them that of the zone.
    OwnedEntries(std::size_t count, std::uint32_t first_block, std::uint32_t end_block, Random& random)
        : zone_first(first_block) {
        for (const auto& [block, unused] : some_postings<Code>(count, end_block - first_block, random)) {
            if (blocks.size() % kGroupEntries == 0) group_start.push_back(static_cast<std::uint32_t>(codes.size()));
            // One document, all of them, or any.
            const auto kind = draw(random, 0, 3);
            const std::uint64_t mask = kind == 0 ? 1U << draw(random, 0, 7) : kind == 1 ? 255 : draw(random, 1, 255);
            blocks.push_back(static_cast<std::uint16_t>(block));
            masks.push_back(static_cast<std::uint8_t>(mask));
            maxima.push_back(0);
            for (std::uint32_t doc = 0; doc < kBlockDocs; ++doc) {
                if ((mask >> doc & 1) == 0) continue;
                const std::uint64_t code = std::numeric_limits<Code>::max() - draw(random, 0, 200);
                codes.push_back(static_cast<Code>(code));
                maxima.back() = std::max(maxima.back(), codes.back());
                postings.push_back({(first_block + block) * kBlockDocs + doc, codes.back()});
            }
        }
        num_entries = static_cast<std::uint32_t>(blocks.size());
        num_codes = static_cast<std::uint32_t>(codes.size());
        blocks.resize(blocks.size() + kSlackBytes / 2, blocks.empty() ? std::uint16_t{0} : blocks[0]);
        group_start.resize(group_start.size() + kSlackBytes / 4);
        masks.resize(masks.size() + kSlackBytes, 255);
        maxima.resize(maxima.size() + kSlackBytes / sizeof(Code));
        codes.resize(codes.size() + kSlackBytes / sizeof(Code));
        blocks.shrink_to_fit();
        group_start.shrink_to_fit();
        masks.shrink_to_fit();
        for (auto* array : {&maxima, &codes}) array->shrink_to_fit();
    }

    EntryList<Code> list() const {
        return {blocks.data(), maxima.data(), masks.data(), group_start.data(),
                codes.data(),  num_entries,   num_codes,    zone_first};
    }
};

constexpr std::size_t kEntryCounts[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 97, 500};

}  // namespace

// Portable kernels are always there, every level has a name, and the level in use is an available one: the fastest,
// unless the environment names another. NEON is there on 64-bit ARM, and only there.
TEST(kernels_levels) {
    CHECK(simd_level_available(SimdLevel::portable));
    CHECK(simd_level_available(simd_level()));
    CHECK_EQ(simd_level_name(SimdLevel::portable), "portable");
    CHECK_EQ(simd_level_name(SimdLevel::neon), "neon");
    CHECK_EQ(simd_level_name(SimdLevel::avx2), "avx2");
    CHECK_EQ(simd_level_name(SimdLevel::avx512), "avx512");
    CHECK(!simd_level_available(SimdLevel::avx512) || simd_level_available(SimdLevel::avx2));
#ifdef __aarch64__
    CHECK(simd_level_available(SimdLevel::neon));
    CHECK(!simd_level_available(SimdLevel::avx2));
#else
    CHECK(!simd_level_available(SimdLevel::neon));
#endif
    const char* forced = std::getenv("SEGMAX_SIMD");
    const auto* fastest = std::find_if(std::begin(kSimdLevels), std::end(kSimdLevels), simd_level_available);
    CHECK_EQ(simd_level_name(simd_level()), forced != nullptr ? forced : simd_level_name(*fastest));
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

// add_levels adds the number that each row has for a block's level, in the tiles asked for, in any order, and no
// others, wraps at 16 bits, and writes the largest bound of each tile.
TEST(kernels_add_levels) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(13);
        constexpr std::size_t kTiles = 6;
        constexpr std::size_t kRowBytes = kTiles * kTileSpans * kSpanBytes;
        const std::vector<std::vector<std::uint32_t>> wanted = {{}, {0}, {5}, {1, 2, 3}, {4, 0}, {0, 1, 2, 3, 4, 5}};
        for (const std::size_t num_rows : {0, 1, 2, 3, 30, 257}) {
            for (const auto& tiles : wanted) {
                for (const bool wraps : {false, true}) {
                    NOTE("rows " << num_rows << ", tiles " << show(tiles) << ", wraps " << wraps);
                    std::vector<Input<std::uint8_t>> levels;
                    std::vector<LevelRow> rows(num_rows);
                    Output<std::uint16_t> bounds(kTiles * kTileBlocks), tile_max(kTiles);
                    std::vector<std::uint16_t> expected(kTiles * kTileBlocks), expected_max = tile_max.first(kTiles);
                    for (std::size_t b = 0; b < expected.size(); ++b) {
                        bounds[b] = expected[b] = static_cast<std::uint16_t>(draw(random, 0, wraps ? 65535 : 100));
                    }
                    const std::uint64_t most = wraps ? 65535 : 65000 / std::max<std::size_t>(num_rows, 1);
                    for (std::size_t r = 0; r < num_rows; ++r) levels.emplace_back(kRowBytes, 0, random);
                    for (std::size_t r = 0; r < num_rows; ++r) {
                        rows[r].levels = levels[r].data();
                        const auto of_block = unpack_levels(levels[r].data(), kTiles);
                        for (std::size_t level = 0; level < kNumLevels; ++level) {
                            const auto added = static_cast<std::uint16_t>(draw(random, 0, most));
                            rows[r].added[level] = added;
                            rows[r].low[level] = static_cast<std::uint8_t>(added % 256);
                            rows[r].high[level] = static_cast<std::uint8_t>(added / 256);
                        }
                        for (const std::uint32_t tile : tiles) {
                            for (std::size_t b = tile * kTileBlocks; b < (tile + 1) * kTileBlocks; ++b) {
                                expected[b] = static_cast<std::uint16_t>(expected[b] + rows[r].added[of_block[b]]);
                            }
                        }
                    }
                    for (const std::uint32_t tile : tiles) {
                        const auto* blocks = expected.data() + tile * kTileBlocks;
                        expected_max[tile] = *std::max_element(blocks, blocks + kTileBlocks);
                    }
                    kernel.add_levels(rows.data(), num_rows, tiles.data(), tiles.size(), bounds.data(),
                                      tile_max.data());
                    CHECK_EQ(bounds.first(expected.size()), expected);
                    CHECK_EQ(tile_max.first(kTiles), expected_max);
                    CHECK(bounds.guards_are_whole() && tile_max.guards_are_whole());
                }
            }
        }
    });
}

// add_maxima adds weight times maximum, in steps and rounded up, to the block of each entry, and notes the last entry
// of every tile that has one.
TEST(kernels_add_maxima) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(14);
        constexpr std::size_t kTiles = 5;
        constexpr std::size_t kBlocks = kTiles * kTileBlocks;
        for (const std::size_t count : kEntryCounts) {
            const OwnedEntries<Code> owned(count, 3, 600, random);
            for (const std::uint32_t weight : {1U, 77U, kMaxQueryWeight}) {
                for (const std::uint32_t shift : {0U, 1U, 7U, 16U, 20U, 31U}) {
                    NOTE("entries " << count << ", weight " << weight << ", shift " << shift);
                    std::vector<std::uint16_t> expected(kBlocks, 7);
                    std::vector<std::uint32_t> expected_last(kTiles, kNoEntry);
                    for (std::uint32_t i = 0; i < count; ++i) {
                        const std::uint64_t product = std::uint64_t{weight} * owned.maxima[i];
                        const std::uint64_t width = std::uint64_t{1} << shift;
                        const std::uint64_t added = product / width + (product % width != 0 ? 1 : 0);
                        const std::uint32_t block = owned.blocks[i];
                        expected[block] = static_cast<std::uint16_t>(expected[block] + added);
                        expected_last[block / kTileBlocks] = i;
                    }
                    Output<std::uint16_t> bounds(kBlocks, 7);
                    Output<std::uint32_t> last(kTiles, kNoEntry);
                    kernel.add_maxima(owned.list(), weight, shift, bounds.data(), last.data());
                    CHECK_EQ(bounds.first(kBlocks), expected);
                    CHECK_EQ(last.first(kTiles), expected_last);
                    CHECK(bounds.guards_are_whole() && last.guards_are_whole());
                }
            }
        }
    });
}

// quad_largest is the largest of each four bounds, compared as unsigned numbers.
TEST(kernels_quad_largest) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(15);
        for (const std::size_t tiles : {0U, 1U, 2U, 5U}) {
            const Input<std::uint16_t> bounds(tiles * kTileBlocks, 0, random);
            std::vector<std::uint16_t> expected(tiles * kTileQuads, 0);
            for (std::size_t b = 0; b < tiles * kTileBlocks; ++b) {
                expected[b / kQuadBlocks] = std::max(expected[b / kQuadBlocks], bounds[b]);
            }
            Output<std::uint16_t> quads(tiles * kTileQuads);
            kernel.quad_largest(bounds.data(), tiles, quads.data());
            CHECK_EQ(quads.first(expected.size()), expected);
            CHECK(quads.guards_are_whole());
        }
    });
}

// add_pairs adds weight times maximum, in steps and rounded up, to the segments of a pair's mask, wraps at 16 bits,
// passes over clusters that there are not, and reads no byte behind the masks.
TEST(kernels_add_pairs) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(16);
        constexpr std::uint32_t kClusters = 11;
        for (const std::uint32_t num_segments : {1U, 2U, 3U, 7U, 8U, 9U, 15U, 16U, 17U, 31U, 32U, 33U, 64U, 257U}) {
            for (const std::uint32_t weight : {1U, 77U, kMaxQueryWeight}) {
                for (const bool wide : {false, true}) {
                    const auto shift = static_cast<std::uint32_t>(draw(random, 0, 20));
                    NOTE("segments " << num_segments << ", weight " << weight << ", shift " << shift);
                    const std::uint32_t num_pairs = wide ? kClusters : 9;
                    std::vector<std::uint32_t> clusters;
                    for (std::uint32_t p = 0; p < num_pairs; ++p) {
                        clusters.push_back(static_cast<std::uint32_t>(draw(random, 0, kClusters + 2)));
                    }
                    const Input<Code> maxima(num_pairs, 0, random);
                    const std::uint32_t mask_bytes = segment_mask_bytes(num_segments);
                    const Input<std::uint8_t> masks(std::size_t{num_pairs} * mask_bytes, 0, random);
                    const auto largest = static_cast<Code>(std::numeric_limits<Code>::max() - draw(random, 0, 3));
                    Output<std::uint16_t> bounds(std::size_t{kClusters} * num_segments, 7);
                    std::vector<std::uint16_t> expected(std::size_t{kClusters} * num_segments, 7);
                    for (std::uint32_t p = 0; p < num_pairs; ++p) {
                        const std::uint32_t cluster = wide ? p : clusters[p];
                        if (cluster >= kClusters) continue;
                        const std::uint64_t product = std::uint64_t{weight} * std::min(maxima[p], largest);
                        const std::uint64_t width = std::uint64_t{1} << shift;
                        const std::uint64_t added = product / width + (product % width != 0 ? 1 : 0);
                        for (std::uint32_t s = 0; s < num_segments; ++s) {
                            const bool has =
                                num_segments == 1 || (masks[std::size_t{p} * mask_bytes + s / 8] >> (s % 8) & 1) != 0;
                            std::uint16_t& bound = expected[std::size_t{cluster} * num_segments + s];
                            bound = static_cast<std::uint16_t>(bound + (has ? added : 0));
                        }
                    }
                    const PairList<Code> pairs{wide ? nullptr : clusters.data(), maxima.data(),
                                               num_segments == 1 ? nullptr : masks.data(), num_pairs, largest};
                    kernel.add_pairs(pairs, weight, shift, num_segments, kClusters, bounds.data());
                    CHECK_EQ(bounds.first(expected.size()), expected);
                    CHECK(bounds.guards_are_whole());
                }
            }
        }
    });
}

// segment_largest takes the largest of the bounds of each cluster, as unsigned numbers.
TEST(kernels_segment_largest) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(18);
        for (const std::uint32_t num_segments : {1U, 2U, 7U, 8U, 9U, 16U, 33U, 257U}) {
            for (const std::uint32_t clusters : {0U, 1U, 13U}) {
                NOTE("segments " << num_segments << ", clusters " << clusters);
                const Input<std::uint16_t> bounds(std::size_t{clusters} * num_segments, 0, random);
                std::vector<std::uint16_t> expected(clusters, 0);
                for (std::size_t i = 0; i < std::size_t{clusters} * num_segments; ++i) {
                    expected[i / num_segments] = std::max(expected[i / num_segments], bounds[i]);
                }
                Output<std::uint16_t> largest(clusters);
                kernel.segment_largest(bounds.data(), clusters, num_segments, largest.data());
                CHECK_EQ(largest.first(clusters), expected);
                CHECK(largest.guards_are_whole());
            }
        }
    });
}

// collect_blocks lists exactly the blocks of the tiles asked for whose bound reaches the limit, as unsigned numbers;
// count_blocks counts them.
TEST(kernels_collect_blocks) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(17);
        constexpr std::size_t kTiles = 70;  // some are passed over 32 at a time
        for (int round = 0; round < 8; ++round) {
            Input<std::uint16_t> bounds(kTiles * kTileBlocks, 0, random);
            std::vector<std::uint16_t> tile_max(kTiles, 0);
            for (std::size_t b = 0; b < kTiles * kTileBlocks; ++b) {
                if (b / kTileBlocks % 3 != 0) bounds[b] %= 50;
                tile_max[b / kTileBlocks] = std::max(tile_max[b / kTileBlocks], bounds[b]);
            }
            for (const auto& [first, end] : {std::pair{0U, 70U}, {1U, 3U}, {5U, 69U}, {2U, 2U}}) {
                const std::uint16_t some = bounds[draw(random, 0, kTiles * kTileBlocks - 1)];
                for (const unsigned least : {1U, 40U, 32767U, 32768U, 65535U, unsigned{some}, some + 1U}) {
                    if (least > 65535) continue;
                    NOTE("tiles " << first << " to " << end << ", least " << least);
                    std::vector<std::uint32_t> expected;
                    for (std::uint32_t b = first * kTileBlocks; b < end * kTileBlocks; ++b) {
                        if (bounds[b] >= least) expected.push_back(b);
                    }
                    Output<std::uint32_t> out(expected.size());
                    const std::size_t found = kernel.collect_blocks(bounds.data(), tile_max.data(), first, end,
                                                                    static_cast<std::uint16_t>(least), out.data());
                    CHECK_EQ(found, expected.size());
                    CHECK_EQ(out.first(expected.size()), expected);
                    CHECK(out.guards_are_whole());
                    CHECK_EQ(kernel.count_blocks(bounds.data(), tile_max.data(), first, end,
                                                 static_cast<std::uint16_t>(least)),
                             expected.size());
                }
            }
        }
    });
}

// add_lookups finds a block's documents in runs of every length, listed and with a bitmap, at any place in memory.
TEST(kernels_add_lookups) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(18);
        const std::uint32_t most = largest_weight<Code, Acc>(std::size(kRunSizes));
        std::vector<std::vector<std::uint8_t>> runs;
        std::vector<RunLookup> lookups;
        std::vector<Acc> expected(kSpanDocs, 0);
        std::uint64_t expected_count = 0;
        for (const std::size_t size : kRunSizes) {
            const auto postings = some_postings<Code>(size, kSpanDocs, random);
            runs.push_back(encode_run(postings));
            const auto num_bytes = static_cast<std::uint32_t>(runs.back().size());
            add_slack(runs.back(), random);
            const std::uint32_t weight = some_weight(random, most);
            for (std::uint16_t block = 0; block < kSpanBlocks; ++block) {
                lookups.push_back({runs.back().data(), num_bytes, weight, block, block});
            }
            for (const auto& [place, code] : postings) expected[place] += Acc{weight} * code;
            expected_count += size;
            NOTE("run of " << size);
            Output<Acc> alone(kSpanDocs, 0);
            std::vector<Acc> expected_alone(kSpanDocs, 0);
            for (const auto& [place, code] : postings) expected_alone[place] += Acc{weight} * code;
            CHECK_EQ(kernel.add_lookups(lookups.data() + lookups.size() - kSpanBlocks, kSpanBlocks, alone.data()),
                     size);
            CHECK_EQ(alone.first(kSpanDocs), expected_alone);
            CHECK(alone.guards_are_whole());
        }
        Output<Acc> sums(kSpanDocs, 0);
        CHECK_EQ(kernel.add_lookups(lookups.data(), lookups.size(), sums.data()), expected_count);
        CHECK_EQ(sums.first(kSpanDocs), expected);
        CHECK(sums.guards_are_whole());
        CHECK_EQ(kernel.add_lookups(lookups.data(), 0, sums.data()), 0U);
    });
}

// find_entry finds the entry of a block, given the last entry of its tile, and nothing where the list lacks the block.
TEST(kernels_find_entry) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(19);
        for (const std::size_t count : kEntryCounts) {
            // Anywhere in the zone, and so close that whole tiles are full.
            for (const auto& [first, end] :
                 {std::pair{0U, 700U}, {kZoneBlocks, kZoneBlocks + 500}, {0U, kZoneBlocks}}) {
                NOTE("entries " << count << ", blocks " << first << " to " << end);
                const OwnedEntries<Code> owned(count, first, end, random);
                std::vector<std::uint32_t> place(kZoneBlocks, kNoEntry), last(kZoneBlocks / kTileBlocks, kNoEntry);
                for (std::uint32_t i = 0; i < owned.num_entries; ++i) {
                    place[owned.blocks[i]] = i;
                    last[owned.blocks[i] / kTileBlocks] = i;
                }
                std::size_t wrong = 0;
                for (std::uint32_t block = 0; block < kZoneBlocks; ++block) {
                    wrong += kernel.find_entry(owned.list(), last[block / kTileBlocks], block) != place[block] ? 1 : 0;
                }
                CHECK_EQ(wrong, 0U);
            }
        }
    });
}

// add_entry_lookups adds the documents of the entries asked for, in any order, some of them twice.
TEST(kernels_add_entry_lookups) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(25);
        for (const std::size_t count : kEntryCounts) {
            const OwnedEntries<Code> one(count, 5, 700, random), other(count, kZoneBlocks, kZoneBlocks + 600, random);
            const EntryList<Code> lists[] = {one.list(), other.list()};
            const std::vector<PlainPosting<Code>>* postings[] = {&one.postings, &other.postings};
            for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{40}, 2 * count}) {
                if (count == 0 && size > 0) continue;
                NOTE("entries " << count << ", lookups " << size);
                constexpr std::uint32_t kSlots = 50;
                std::vector<EntryLookup<Code>> lookups;
                std::vector<Acc> expected(kSlots * kBlockDocs, 0);
                std::uint64_t expected_count = 0;
                const std::uint32_t most = largest_weight<Code, Acc>(size);
                for (std::size_t i = 0; i < size; ++i) {
                    const std::size_t which = draw(random, 0, 1);
                    const auto entry = static_cast<std::uint32_t>(draw(random, 0, count - 1));
                    const auto slot = static_cast<std::uint32_t>(draw(random, 0, kSlots - 1));
                    lookups.push_back({&lists[which], entry, some_weight(random, most), slot});
                    const std::uint32_t block = lists[which].first_block + lists[which].blocks[entry];
                    for (const auto& [position, code] : *postings[which]) {
                        if (position / kBlockDocs != block) continue;
                        expected[slot * kBlockDocs + position % kBlockDocs] += Acc{lookups.back().weight} * code;
                        ++expected_count;
                    }
                }
                Output<Acc> sums(expected.size(), 0);
                CHECK_EQ(kernel.add_entry_lookups(lookups.data(), size, sums.data()), expected_count);
                CHECK_EQ(sums.first(expected.size()), expected);
                CHECK(sums.guards_are_whole());
            }
        }
    });
}

// add_runs adds whole runs of every length, of the spans asked for and no others, also where bases change in between.
TEST(kernels_add_runs) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(20);
        constexpr std::size_t kSpans = 2 * kBaseSpans + 9;
        std::vector<std::uint8_t> bytes;
        std::vector<std::uint32_t> run_base;
        std::vector<std::uint16_t> run_start;
        std::vector<std::vector<PlainPosting<Code>>> runs;
        const auto start_run = [&](std::size_t span) {
            if (span % kBaseSpans == 0) run_base.push_back(static_cast<std::uint32_t>(bytes.size()));
            run_start.push_back(static_cast<std::uint16_t>(bytes.size() - run_base.back()));
        };
        for (std::size_t span = 0; span < kSpans; ++span) {
            start_run(span);
            // The second base comes after as many bytes as can be.
            const std::size_t size = span < kBaseSpans ? kSpanDocs : kRunSizes[span % std::size(kRunSizes)];
            runs.push_back(some_postings<Code>(size, kSpanDocs, random));
            const auto run = encode_run(runs.back());
            bytes.insert(bytes.end(), run.begin(), run.end());
        }
        start_run(kSpans);
        const std::size_t num_bytes = bytes.size();
        add_slack(bytes, random);
        bytes.shrink_to_fit();
        for (const auto& [first, end] : {std::pair<std::size_t, std::size_t>{0, kSpans},
                                         {3, 9},
                                         {kSpans - 1, kSpans},
                                         {4, 4},
                                         {kBaseSpans - 1, kBaseSpans},
                                         {kBaseSpans, 2 * kBaseSpans},
                                         {kBaseSpans - 2, kBaseSpans + 20}}) {
            NOTE("spans " << first << " to " << end);
            const std::uint32_t weight = some_weight(random, largest_weight<Code, Acc>(1));
            Output<Acc> sums((end - first) * kSpanDocs, 0);
            std::vector<Acc> expected((end - first) * kSpanDocs, 0);
            for (std::size_t span = first; span < end; ++span) {
                for (const auto& [place, code] : runs[span]) {
                    expected[(span - first) * kSpanDocs + place] += Acc{weight} * code;
                }
            }
            kernel.add_runs(bytes.data(), num_bytes, run_base.data(), run_start.data(), first, end, weight,
                            sums.data());
            CHECK_EQ(sums.first(expected.size()), expected);
            CHECK(sums.guards_are_whole());
        }
    });
}

// add_entries goes on where it stopped, window after window, until everything is added once.
TEST(kernels_add_entries) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(22);
        for (const std::size_t count : kEntryCounts) {
            const OwnedEntries<Code> owned(count, 5, 700, random);
            for (const std::uint32_t window : {1U, 32U, 33U, 320U, 1000U}) {
                NOTE("entries " << count << ", window " << window);
                const std::uint32_t weight = some_weight(random, largest_weight<Code, Acc>(1));
                typename Kernels<Code, Acc>::EntryPlace place;
                std::vector<Acc> found, expected(1000 * kBlockDocs, 0);
                for (std::uint32_t first = 0; first < 1000; first += window) {
                    const std::uint32_t end = std::min(1000U, first + window);
                    Output<Acc> sums((end - first) * kBlockDocs, 0);
                    place = kernel.add_entries(owned.list(), place, first, end, weight, sums.data());
                    const auto some = sums.first((end - first) * kBlockDocs);
                    found.insert(found.end(), some.begin(), some.end());
                    CHECK(sums.guards_are_whole());
                }
                for (const auto& [position, code] : owned.postings) expected[position] += Acc{weight} * code;
                CHECK_EQ(found, expected);
                CHECK_EQ(place.entry, owned.num_entries);
                CHECK_EQ(place.code, owned.num_codes);
            }
        }
    });
}

// Whatever the bytes say, nothing is read beyond an array and its slack, nothing written beyond the sums of the call.
TEST(kernels_survive_damage) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(23);
        constexpr std::size_t kSpans = 12;
        for (int round = 0; round < 300; ++round) {
            const std::size_t num_bytes = draw(random, 0, 700);
            const Input<std::uint8_t> bytes(num_bytes, kSlackBytes, random);
            const std::vector<std::uint32_t> run_base{
                static_cast<std::uint32_t>(draw(random, 0, round % 2 == 0 ? 200 : 0xFFFFFFFFU))};
            std::vector<std::uint16_t> run_start(kSpans + 1);
            for (auto& start : run_start) {
                start = static_cast<std::uint16_t>(draw(random, 0, round % 4 < 2 ? 800 : 65535));
            }
            if (round % 3 != 0) std::sort(run_start.begin(), run_start.end());
            Output<Acc> sums(kSpans * kSpanDocs, 0);
            kernel.add_runs(bytes.data(), num_bytes, run_base.data(), run_start.data(), 0, kSpans, 1, sums.data());
            CHECK(sums.guards_are_whole());

            std::vector<RunLookup> lookups;
            for (std::uint16_t block = 0; block < kSpanBlocks; ++block) {
                const std::size_t start = draw(random, 0, num_bytes);
                const auto size = static_cast<std::uint32_t>(draw(random, 0, num_bytes - start));
                lookups.push_back({bytes.data() + start, size, 1, block, block});
            }
            Output<Acc> blocks(kSpanDocs, 0);
            kernel.add_lookups(lookups.data(), lookups.size(), blocks.data());
            CHECK(blocks.guards_are_whole());

            OwnedEntries<Code> owned(draw(random, 1, 100), 0, 200, random);
            for (std::uint32_t i = 0; i < owned.num_entries; ++i) {
                if (draw(random, 0, 3) == 0) owned.blocks[i] = static_cast<std::uint16_t>(random());
                if (draw(random, 0, 3) == 0) owned.blocks[i] = static_cast<std::uint16_t>(draw(random, 0, 300));
                if (draw(random, 0, 3) == 0) owned.masks[i] = 255;
                if (draw(random, 0, 3) == 0)
                    owned.group_start[i / kGroupEntries] = static_cast<std::uint32_t>(random());
            }
            const EntryList<Code> list = owned.list();
            std::vector<EntryLookup<Code>> entries;
            for (std::uint32_t i = 0; i < 50; ++i) {
                const auto last = static_cast<std::uint32_t>(draw(random, 0, 2 * std::uint64_t{list.num_entries}));
                const auto block = static_cast<std::uint32_t>(draw(random, 0, i % 2 == 0 ? 300 : 65535));
                const std::uint32_t entry = kernel.find_entry(list, last, block);
                CHECK(entry == kNoEntry || (entry <= last && list.blocks[entry] == block));
                if (entry != kNoEntry) entries.push_back({&list, entry, 1, i});
            }
            for (std::uint32_t i = 0; i < list.num_entries; ++i) entries.push_back({&list, i, 1, i % 50});
            Output<Acc> found(50 * kBlockDocs, 0);
            kernel.add_entry_lookups(entries.data(), entries.size(), found.data());
            CHECK(found.guards_are_whole());

            typename Kernels<Code, Acc>::EntryPlace place;
            for (const auto& [first, end] : {std::pair{0U, 90U}, {90U, 180U}, {180U, 181U}}) {
                // One block more: where entries from before the range go.
                Output<Acc> window((end - first + 1) * kBlockDocs, 0);
                place = kernel.add_entries(owned.list(), place, first, end, 1, window.data());
                CHECK(window.guards_are_whole());
            }
            // Room for a whole zone: a damaged entry may name any block of it.
            Output<std::uint16_t> bounds(kZoneBlocks, 0);
            Output<std::uint32_t> last(kZoneBlocks / kTileBlocks, kNoEntry);
            kernel.add_maxima(list, kMaxQueryWeight, 0, bounds.data(), last.data());
            CHECK(bounds.guards_are_whole() && last.guards_are_whole());
        }
    });
}

// block_largest is the largest of each eight sums, compared as unsigned numbers.
TEST(kernels_block_largest) {
    each_table([]<class Code, class Acc>(const Kernels<Code, Acc>& kernel) {
        Random random(24);
        for (const std::size_t blocks : kLengths) {
            NOTE("blocks " << blocks);
            Input<Acc> values(blocks * kBlockDocs, 0, random);
            Output<Acc> out(blocks);
            std::vector<Acc> expected(blocks, 0);
            for (std::size_t i = 0; i < blocks * kBlockDocs; ++i) {
                // Small, in the middle, and beyond the sign bit.
                const std::size_t b = i / kBlockDocs;
                values[i] = b % 3 == 0 ? values[i] % 5 : values[i] / (b % 3 == 1 ? 2 : 1);
                expected[b] = std::max(expected[b], values[i]);
            }
            kernel.block_largest(values.data(), blocks, out.data());
            CHECK_EQ(out.first(blocks), expected);
            CHECK(out.guards_are_whole());
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

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// What we read from the CPU ourselves is what GCC's runtime reads from it.
TEST(kernels_features_of_the_cpu) {
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    CHECK_EQ(simd_level_available(SimdLevel::avx2), avx2);
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
    CHECK_EQ(simd_level_available(SimdLevel::avx512), avx512);
}
#endif
