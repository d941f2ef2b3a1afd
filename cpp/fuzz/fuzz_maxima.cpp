// The arrays of a router: FormatError, or bounds of every shard for any query.
//
//   seed u4 | num_quartets u4 | the bytes of every array u4, in the order of MaximaArrays | the arrays
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "fuzz.hpp"
#include "segmax/base/errors.hpp"
#include "segmax/search/maxima.hpp"

namespace {

using namespace segmax;

constexpr std::uint32_t kMostQuartets = 1U << 16U;  // Python allows as many as there are documents

PreparedQuery random_query(std::mt19937& random, std::uint32_t num_terms) {
    PreparedQuery query;
    for (std::uint32_t term = 0; term < num_terms + 2; ++term) {
        if (random() % 3 == 0)
            query.terms.push_back({term, 1 + static_cast<std::uint32_t>(random() % kMaxQueryWeight)});
    }
    return query;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    std::mt19937 random(input.take<std::uint32_t>());
    MaximaArrays arrays;
    arrays.num_quartets = input.take<std::uint32_t>();
    if (arrays.num_quartets > kMostQuartets) return 0;
    std::vector<std::uint32_t> sizes;
    for (int i = 0; i < 6; ++i) sizes.push_back(input.take<std::uint32_t>());
    const auto own = [&](int number) {
        return fuzz::OwnedArray(input.take_text(sizes[static_cast<std::size_t>(number)]));
    };
    const auto first_mark = own(0), first_value = own(1), marks = own(2), values = own(3), firsts = own(4),
               tops = own(5);
    arrays.first_mark = first_mark.as<std::uint64_t>();
    arrays.first_value = first_value.as<std::uint64_t>();
    arrays.marks = marks.as<std::uint8_t>();
    arrays.values = values.as<std::uint8_t>();
    arrays.shard_first_quartet = firsts.as<std::uint32_t>();
    arrays.tops = tops.as<std::uint16_t>();
    std::optional<Maxima> maxima;
    try {
        maxima.emplace(arrays);
    } catch (const FormatError&) {
        return 0;
    }
    for (int i = 0; i < 4; ++i) {
        const PreparedQuery query = random_query(random, maxima->num_terms());
        const ShardBounds bounds = maxima->bounds(query);
        REQUIRE(bounds.most.size() == maxima->num_shards() && bounds.promise.size() == maxima->num_shards());
        for (std::size_t shard = 0; shard < bounds.most.size(); ++shard) {
            REQUIRE(bounds.segment_sum[shard] <= kQuartetUnits * bounds.most[shard]);
            REQUIRE(bounds.segment_sum[shard] >= bounds.most[shard]);
        }
        for (const double promise : maxima->promise(query)) REQUIRE(std::isfinite(promise));
    }
    return 0;
}
