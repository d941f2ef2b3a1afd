// What a router knows of shards.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.hpp"
#include "segmax/base/errors.hpp"
#include "segmax/search/maxima.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

/// Largest codes of terms in units of some shards, and everything that packing them takes.
struct Router {
    Router(std::uint32_t num_terms, const std::vector<std::uint32_t>& quartets_of_shards, double density,
           std::uint64_t seed) {
        std::mt19937_64 random(seed);
        firsts = {0};
        for (const std::uint32_t quartets : quartets_of_shards) firsts.push_back(firsts.back() + quartets);
        const std::size_t num_shards = quartets_of_shards.size();
        tops.assign(num_terms * num_shards, 0);
        first = {0};
        for (std::uint32_t term = 0; term < num_terms; ++term) {
            std::size_t shard = 0;
            for (std::uint32_t unit = 0; unit < firsts.back() * kQuartetUnits; ++unit) {
                while (unit / kQuartetUnits >= firsts[shard + 1]) ++shard;
                if (std::uniform_real_distribution<>(0, 1)(random) >= density) continue;
                const auto code = static_cast<std::uint16_t>(1 + random() % (term % 2 == 0 ? 255 : 65535));
                units.push_back(unit);
                codes.push_back(code);
                std::uint16_t& top = tops[term * num_shards + shard];
                top = std::max(top, code);
            }
            first.push_back(units.size());
        }
        packed = pack_maxima(first, units, codes, firsts, tops);
    }

    MaximaArrays arrays() const {
        return {firsts.back(), packed.first_mark, packed.first_value, packed.marks, packed.values, firsts, tops};
    }

    std::vector<std::uint32_t> firsts, units;
    std::vector<std::uint64_t> first;
    std::vector<std::uint16_t> codes, tops;
    PackedMaxima packed;
};

PreparedQuery query_of(std::vector<QueryTerm> terms) {
    PreparedQuery query;
    query.terms = std::move(terms);
    return query;
}

}  // namespace

TEST(maxima_bound_what_they_were_made_of) {
    for (const double density : {0.9, 0.2, 0.004}) {
        const Router router(6, {40, 1, 0, 300}, density, 7);
        const Maxima maxima(router.arrays());
        const PreparedQuery query = query_of({{0, 3}, {1, 1}, {4, 100}, {9, 5}});
        std::vector<std::uint64_t> sums(router.firsts.back() * kQuartetUnits, 0);
        std::vector<std::uint64_t> most_of_rounding(sums.size(), 0);
        for (const QueryTerm& asked : query.terms) {
            if (asked.term >= 6) continue;
            for (std::uint64_t at = router.first[asked.term]; at < router.first[asked.term + 1]; ++at) {
                sums[router.units[at]] += std::uint64_t{asked.weight} * router.codes[at];
                most_of_rounding[router.units[at]] += std::uint64_t{asked.weight} * (65535 / kMaximaSteps + 2);
            }
        }
        const ShardBounds found = maxima.bounds(query);
        CHECK_EQ(found.most.size(), std::size_t{4});
        for (std::size_t shard = 0; shard < 4; ++shard) {
            std::uint64_t best = 0;
            std::uint64_t most = 0;
            for (std::size_t unit = router.firsts[shard] * kQuartetUnits;
                 unit < router.firsts[shard + 1] * kQuartetUnits; ++unit) {
                best = std::max(best, sums[unit]);
                most = std::max(most, sums[unit] + most_of_rounding[unit]);
            }
            CHECK(found.most[shard] >= best);
            CHECK(found.most[shard] <= most);
            CHECK(found.segment_sum[shard] <= kQuartetUnits * found.most[shard]);
            CHECK(found.segment_sum[shard] >= found.most[shard]);
        }
    }
}

TEST(marks_reach_quartets_that_are_far_apart) {
    const std::vector<std::uint32_t> firsts{0, 300000};
    const std::vector<std::uint64_t> first{0, 4};
    const std::vector<std::uint32_t> units{60, 64, 4 * 65600, 4 * 299999 + 3};
    const std::vector<std::uint16_t> codes{16, 1, 7, 16};
    const std::vector<std::uint16_t> tops{16};
    const PackedMaxima packed = pack_maxima(first, units, codes, firsts, tops);
    const Maxima maxima({300000, packed.first_mark, packed.first_value, packed.marks, packed.values, firsts, tops});
    CHECK_EQ(maxima.bounds(query_of({{0, 2}})).most[0], std::uint64_t{32});
    CHECK_EQ(maxima.bounds(query_of({{0, 2}})).promise[0], 2.0 * (16 + 1 + 7 + 16));
}

TEST(damaged_maxima_are_refused_or_stay_inside) {
    const Router router(5, {9, 9}, 0.3, 3);
    for (std::size_t at = 0; at < router.packed.marks.size(); ++at) {
        for (const std::uint8_t wrong : std::initializer_list<std::uint8_t>{0x00, 0x0F, 0xF0, 0xFF}) {
            PackedMaxima other = router.packed;
            other.marks[at] = wrong;
            MaximaArrays arrays = router.arrays();
            arrays.marks = other.marks;
            try {
                const Maxima maxima(arrays);
                maxima.bounds(query_of({{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}));
            } catch (const FormatError&) {
            }
        }
    }
    MaximaArrays short_values = router.arrays();
    short_values.values = short_values.values.first(short_values.values.size() - 1);
    CHECK_THROWS(Maxima{short_values}, FormatError);
    MaximaArrays other_shards = router.arrays();
    other_shards.tops = other_shards.tops.first(other_shards.tops.size() - 1);
    CHECK_THROWS(Maxima{other_shards}, FormatError);
}

TEST(collected_maxima_are_the_largest_codes_of_units) {
    // Two units of two documents each.
    const std::vector<std::int64_t> indptr{0, 2, 3, 5, 6};
    const std::vector<std::uint32_t> terms{0, 2, 0, 1, 2, 2};
    const std::vector<std::uint8_t> codes{3, 9, 5, 1, 4, 6};
    const std::vector<std::uint32_t> units{0, 0, 1, 1};
    MaximaCollector all(3, 0, {});
    all.add<std::uint8_t>(indptr, terms, codes, units);
    const CollectedMaxima found = all.finish();
    CHECK(found.counts == std::vector<std::uint32_t>({1, 1, 2}));
    CHECK(found.units == std::vector<std::uint32_t>({0, 1, 0, 1}));
    CHECK(found.codes == std::vector<std::uint16_t>({5, 1, 9, 6}));
    MaximaCollector heaviest(3, 1, {1.0, 9.0, 1.0});  // by weight: of the second unit, 9 * 1 before 6
    heaviest.add<std::uint8_t>(indptr, terms, codes, units);
    CHECK(heaviest.finish().units == std::vector<std::uint32_t>({1, 0}));
}
