// A mark is a byte: four bits for the number of quartets that it skips, four bits for the units of its quartet that
// have the term. Skipping 15 means 15 and as many more as the two bytes behind it say; a mark of no unit only skips.
#include "segmax/search/maxima.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "segmax/base/errors.hpp"

namespace segmax {

namespace {

constexpr std::uint32_t kFar = 15;
constexpr std::uint32_t kMostFurther = 0xFFFF;
constexpr std::size_t kBestUnits = 10;      // of a shard, whose bounds are its promise
constexpr std::size_t kExpectedUnits = 40;  // of all shards, which may hold results

/// What a value stands for: its sixteenths of the largest code, rounded up.
std::uint32_t code_of(std::uint32_t value, std::uint32_t top) {
    return ((value + 1) * top + kMaximaSteps - 1) / kMaximaSteps;
}

std::uint32_t value_of(std::uint32_t code, std::uint32_t top) {
    // The smallest value that stands for at least the code.
    std::uint32_t value = code * kMaximaSteps / top;
    while (value > 0 && code_of(value - 1, top) >= code) --value;
    while (code_of(value, top) < code) ++value;
    return value;
}

/// Units that are neighbors, and the largest sum of theirs: most stretches need no second look.
struct Stretch {
    std::size_t first = 0;
    std::size_t end = 0;
    std::int32_t most = 0;
};

constexpr std::size_t kStretchUnits = 64;

void append_stretches(std::span<const std::int32_t> sums, std::size_t first, std::size_t end,
                      std::vector<Stretch>& stretches) {
    for (; first < end; first += kStretchUnits) {
        const std::size_t last = std::min(first + kStretchUnits, end);
        std::int32_t most = 0;
        for (std::size_t unit = first; unit < last; ++unit) most = std::max(most, sums[unit]);
        stretches.push_back({first, last, most});
    }
}

/// The n-th largest of some sums, counted from 0; 0 where there are fewer.
std::int32_t nth_largest(std::vector<std::int32_t>& sums, std::size_t n) {
    if (sums.size() <= n) return 0;
    std::nth_element(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(n), sums.end(), std::greater<>());
    return sums[n];
}

/// The sum of the fortieth unit behind the best one.
std::int32_t expected_sum(std::span<const std::int32_t> sums, std::span<const Stretch> stretches) {
    std::vector<std::int32_t> best;
    for (const Stretch& stretch : stretches) best.push_back(stretch.most);
    const std::int32_t least = std::max(1, nth_largest(best, kExpectedUnits));  // of so many stretches, a unit has it
    std::vector<std::int32_t> high;
    for (const Stretch& stretch : stretches) {
        for (std::size_t unit = stretch.first; stretch.most >= least && unit < stretch.end; ++unit) {
            if (sums[unit] >= least) high.push_back(sums[unit]);
        }
    }
    return nth_largest(high, kExpectedUnits);
}

/// By the units of a mark that have the term: where the value of each is, and 16 for those that have none.
struct Lanes {
    std::array<std::uint8_t, kQuartetUnits> shift{};
    std::array<std::uint8_t, kQuartetUnits> absent{};
};

constexpr std::array<Lanes, 16> kLanes = [] {
    std::array<Lanes, 16> lanes{};
    for (std::uint32_t units = 0; units < 16; ++units) {
        for (std::uint32_t unit = 0; unit < kQuartetUnits; ++unit) {
            const std::uint32_t before = units & ((1U << unit) - 1U);
            lanes[units].shift[unit] = static_cast<std::uint8_t>(4 * std::popcount(before));
            lanes[units].absent[unit] = (units >> unit & 1U) != 0 ? 0 : kMaximaSteps;
        }
    }
    return lanes;
}();

[[noreturn]] void fail(const char* what) {
    throw FormatError(std::string("the router is damaged: ") + what);
}

template <class Offset>
void check_offsets(std::span<const Offset> offsets, std::uint64_t size, const char* what) {
    if (offsets.empty() || offsets.front() != 0 || offsets.back() != size ||
        !std::is_sorted(offsets.begin(), offsets.end())) {
        fail(what);
    }
}

}  // namespace

Maxima::Maxima(const MaximaArrays& arrays) : arrays_(arrays) {
    check_offsets(arrays.first_mark, arrays.marks.size(), "its marks have other offsets");
    if (arrays.first_value.size() != arrays.first_mark.size()) fail("it has values of other terms");
    check_offsets(arrays.first_value, arrays.first_value.back(), "its values have other offsets");
    if ((arrays.first_value.back() + 1) / 2 != arrays.values.size()) fail("it has another number of values");
    check_offsets<std::uint32_t>(arrays.shard_first_quartet, arrays.num_quartets, "its shards have other quartets");
    if (arrays.tops.size() != std::size_t{num_terms()} * num_shards()) fail("it has the codes of other terms");
    for (std::uint32_t term = 0; term < num_terms(); ++term) check_term(term);
}

void Maxima::check_term(std::uint32_t term) const {
    std::uint64_t at = arrays_.first_mark[term];
    const std::uint64_t end = arrays_.first_mark[term + 1];
    std::uint64_t quartets = 0;  // passed so far
    std::uint64_t values = 0;
    while (at < end) {
        const std::uint8_t mark = arrays_.marks[at++];
        std::uint32_t skipped = mark >> 4;
        if (skipped == kFar) {
            if (end - at < 2) fail("a mark ends too early");
            skipped += arrays_.marks[at] | arrays_.marks[at + 1] << 8;
            at += 2;
        }
        quartets += skipped + ((mark & 15) != 0 ? 1 : 0);
        values += static_cast<std::uint64_t>(std::popcount(static_cast<unsigned>(mark & 15)));
        if (quartets > arrays_.num_quartets) fail("a mark leads behind the last quartet");
    }
    if (values != arrays_.first_value[term + 1] - arrays_.first_value[term]) fail("a term has too few values");
}

/// Calls visit(quartet, units, number of the first value) for every mark that has units.
template <class Visit>
void Maxima::each_mark(std::uint32_t term, Visit&& visit) const {
    const std::uint8_t* at = arrays_.marks.data() + arrays_.first_mark[term];
    const std::uint8_t* const end = arrays_.marks.data() + arrays_.first_mark[term + 1];
    std::uint64_t value = arrays_.first_value[term];
    std::uint32_t quartet = 0;
    while (at < end) {
        const std::uint8_t mark = *at++;
        std::uint32_t skipped = mark >> 4;
        if (skipped == kFar) {
            skipped += at[0] | at[1] << 8;
            at += 2;
        }
        quartet += skipped;
        const std::uint32_t units = mark & 15U;
        if (units == 0) continue;
        visit(quartet, units, value);
        value += static_cast<std::uint64_t>(std::popcount(units));
        ++quartet;
    }
}

/// The four values from a number on, the first in the lowest bits; zeros behind the last.
inline std::uint32_t Maxima::four_values(std::uint64_t number) const {
    const std::size_t at = number / 2;
    std::uint32_t bytes = 0;
    if (at + sizeof(bytes) <= arrays_.values.size()) {
        std::memcpy(&bytes, arrays_.values.data() + at, sizeof(bytes));
        if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap32(bytes);
    } else {
        for (std::size_t i = at; i < arrays_.values.size(); ++i)
            bytes |= std::uint32_t{arrays_.values[i]} << (i - at) * 8;
    }
    return bytes >> number % 2 * 4;
}

template <class Sum>
void Maxima::add_up(const PreparedQuery& query, std::vector<Sum>& sums, int shift) const {
    sums.assign(std::size_t{arrays_.num_quartets} * kQuartetUnits, Sum{0});
    for (const QueryTerm& asked : query.terms) {
        if (asked.term >= num_terms()) continue;
        const std::uint16_t* tops = arrays_.tops.data() + std::size_t{asked.term} * num_shards();
        std::array<Sum, std::size_t{2} * kMaximaSteps>
            adds{};  // the second half stays 0: for units that do not have the term
        std::uint32_t shard = 0;
        std::uint32_t shard_end = 0;  // the first quartet that `adds` are not for
        each_mark(asked.term, [&](std::uint32_t quartet, std::uint32_t units, std::uint64_t number) {
            if (quartet >= shard_end) {
                while (quartet >= arrays_.shard_first_quartet[shard + 1]) ++shard;
                shard_end = arrays_.shard_first_quartet[shard + 1];
                for (std::uint32_t value = 0; value < kMaximaSteps; ++value) {
                    const std::uint64_t product = std::uint64_t{asked.weight} * code_of(value, tops[shard]);
                    adds[value] = static_cast<Sum>(product >> shift);
                }
            }
            const std::uint32_t values = four_values(number);
            const Lanes& lanes = kLanes[units];
            Sum* sum = sums.data() + std::size_t{quartet} * kQuartetUnits;
            for (std::uint32_t unit = 0; unit < kQuartetUnits; ++unit) {  // all four: no branch to guess
                sum[unit] += adds[(values >> lanes.shift[unit] & 15U) | lanes.absent[unit]];
            }
        });
    }
}

/// More than any sum of a query.
std::uint64_t Maxima::most_of(const PreparedQuery& query) const {
    std::uint64_t most = 0;
    for (const QueryTerm& asked : query.terms) {
        if (asked.term >= num_terms()) continue;
        const auto tops = arrays_.tops.subspan(std::size_t{asked.term} * num_shards(), num_shards());
        most += std::uint64_t{asked.weight} * (std::uint64_t{*std::max_element(tops.begin(), tops.end())} + 1);
    }
    return most;
}

ShardBounds Maxima::bounds(const PreparedQuery& query) const {
    // Four sums of 32 bits are added up, and that as fast as two of 64.
    return std::bit_width(most_of(query)) <= 29 ? bounds_by<std::uint32_t>(query) : bounds_by<std::uint64_t>(query);
}

template <class Sum>
ShardBounds Maxima::bounds_by(const PreparedQuery& query) const {
    static thread_local std::vector<Sum> sums;
    add_up(query, sums, 0);
    ShardBounds found;
    for (std::uint32_t shard = 0; shard < num_shards(); ++shard) {
        const auto begin = sums.begin() + std::ptrdiff_t{arrays_.shard_first_quartet[shard]} * kQuartetUnits;
        const auto end = sums.begin() + std::ptrdiff_t{arrays_.shard_first_quartet[shard + 1]} * kQuartetUnits;
        Sum most = 0;
        Sum segment_sum = 0;
        for (auto at = begin; at != end; at += kQuartetUnits) {
            segment_sum = std::max<Sum>(segment_sum, at[0] + at[1] + at[2] + at[3]);
            most = std::max({most, at[0], at[1], at[2], at[3]});
        }
        const auto best = begin + std::min<std::ptrdiff_t>(kBestUnits, end - begin);
        std::partial_sort(begin, best, end, std::greater<>());
        double promise = 0;
        for (auto at = begin; at != best; ++at) promise += static_cast<double>(*at);
        found.most.push_back(most);
        found.segment_sum.push_back(segment_sum);
        found.promise.push_back(promise);
    }
    return found;
}

std::vector<double> Maxima::promise(const PreparedQuery& query) const {
    static thread_local std::vector<std::int32_t> sums;
    add_up(query, sums, std::max(0, static_cast<int>(std::bit_width(most_of(query))) - 30));
    std::vector<Stretch> stretches;
    std::vector<std::size_t> first_stretch{0};
    for (std::uint32_t shard = 0; shard < num_shards(); ++shard) {
        const auto first = std::size_t{arrays_.shard_first_quartet[shard]} * kQuartetUnits;
        append_stretches(sums, first, std::size_t{arrays_.shard_first_quartet[shard + 1]} * kQuartetUnits, stretches);
        first_stretch.push_back(stretches.size());
    }
    const std::int32_t needed = expected_sum(sums, stretches);
    std::vector<double> found;
    for (std::uint32_t shard = 0; shard < num_shards(); ++shard) {
        double excess = 0;
        std::int32_t most = 0;
        for (std::size_t i = first_stretch[shard]; i < first_stretch[shard + 1]; ++i) {
            const Stretch& stretch = stretches[i];
            most = std::max(most, stretch.most);
            for (std::size_t unit = stretch.first; stretch.most > needed && unit < stretch.end; ++unit) {
                excess += std::max(0, sums[unit] - needed);
            }
        }
        found.push_back(excess + most * 1e-3);  // shards without a unit above it are ordered by their best one
    }
    return found;
}

MaximaCollector::MaximaCollector(std::uint32_t num_terms, std::uint32_t most, std::vector<double> scale)
    : num_terms_(num_terms), most_(most), scale_(std::move(scale)), largest_(num_terms, 0) {
    if (most > 0 && scale_.size() != num_terms) throw std::invalid_argument("expected a scale for every term");
}

template <class Code>
void MaximaCollector::add(std::span<const std::int64_t> indptr, std::span<const std::uint32_t> terms,
                          std::span<const Code> codes, std::span<const std::uint32_t> units) {
    std::vector<std::uint32_t> order(units.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return units[a] < units[b]; });
    for (std::size_t i = 0; i < order.size(); ++i) {
        const std::uint32_t doc = order[i];
        for (auto at = static_cast<std::size_t>(indptr[doc]); at < static_cast<std::size_t>(indptr[doc + 1]); ++at) {
            std::uint16_t& largest = largest_[terms[at]];
            if (largest == 0) has_terms_.push_back(terms[at]);
            largest = std::max<std::uint16_t>(largest, codes[at]);
        }
        if (i + 1 == order.size() || units[order[i + 1]] != units[doc]) keep_unit(units[doc]);
    }
}

template void MaximaCollector::add(std::span<const std::int64_t>, std::span<const std::uint32_t>,
                                   std::span<const std::uint8_t>, std::span<const std::uint32_t>);
template void MaximaCollector::add(std::span<const std::int64_t>, std::span<const std::uint32_t>,
                                   std::span<const std::uint16_t>, std::span<const std::uint32_t>);

void MaximaCollector::keep_unit(std::uint32_t unit) {
    std::vector<std::uint32_t>& own = has_terms_;
    if (most_ > 0 && own.size() > most_) {
        const auto is_heavier = [&](std::uint32_t a, std::uint32_t b) {
            const double first = largest_[a] * scale_[a];
            const double second = largest_[b] * scale_[b];
            return first != second ? first > second : a < b;
        };
        std::nth_element(own.begin(), own.begin() + most_, own.end(), is_heavier);
        for (auto at = own.begin() + most_; at != own.end(); ++at) largest_[*at] = 0;
        own.resize(most_);
    }
    for (const std::uint32_t term : own) {
        terms_.push_back(term);
        units_.push_back(unit);
        codes_.push_back(largest_[term]);
        largest_[term] = 0;
    }
    own.clear();
}

CollectedMaxima MaximaCollector::finish() const {
    CollectedMaxima found;
    found.counts.assign(num_terms_, 0);
    for (const std::uint32_t term : terms_) ++found.counts[term];
    std::vector<std::size_t> next(num_terms_);
    std::exclusive_scan(found.counts.begin(), found.counts.end(), next.begin(), std::size_t{0});
    found.units.resize(terms_.size());
    found.codes.resize(terms_.size());
    for (std::size_t i = 0; i < terms_.size(); ++i) {
        const std::size_t at = next[terms_[i]]++;
        found.units[at] = units_[i];
        found.codes[at] = codes_[i];
    }
    return found;
}

namespace {

/// Writes the marks and values of one term.
class TermPacker {
public:
    explicit TermPacker(PackedMaxima& packed) : packed_(packed), num_values_(packed.first_value.back()) {}

    void quartet(std::uint32_t quartet, std::uint32_t units) {
        std::uint32_t skipped = quartet - next_;
        while (skipped > kFar + kMostFurther) {
            far(0, kMostFurther);
            skipped -= kFar + kMostFurther;
        }
        if (skipped < kFar) {
            packed_.marks.push_back(static_cast<std::uint8_t>(skipped << 4 | units));
        } else {
            far(units, skipped - kFar);
        }
        next_ = quartet + 1;
    }

    void value(std::uint32_t value) {
        if (num_values_ % 2 == 0) packed_.values.push_back(0);
        packed_.values.back() |= static_cast<std::uint8_t>(value << (num_values_ % 2 * 4));
        ++num_values_;
    }

    void finish() {
        packed_.first_mark.push_back(packed_.marks.size());
        packed_.first_value.push_back(num_values_);
    }

private:
    void far(std::uint32_t units, std::uint32_t further) {
        packed_.marks.push_back(static_cast<std::uint8_t>(kFar << 4 | units));
        packed_.marks.push_back(static_cast<std::uint8_t>(further & 0xFF));
        packed_.marks.push_back(static_cast<std::uint8_t>(further >> 8));
    }

    PackedMaxima& packed_;
    std::uint64_t num_values_;
    std::uint32_t next_ = 0;
};

}  // namespace

PackedMaxima pack_maxima(std::span<const std::uint64_t> first, std::span<const std::uint32_t> units,
                         std::span<const std::uint16_t> codes, std::span<const std::uint32_t> shard_first_quartet,
                         std::span<const std::uint16_t> tops) {
    PackedMaxima packed;
    packed.first_mark.push_back(0);
    packed.first_value.push_back(0);
    const std::size_t num_shards = shard_first_quartet.size() - 1;
    for (std::size_t term = 0; term + 1 < first.size(); ++term) {
        TermPacker packer(packed);
        std::size_t shard = 0;
        for (std::uint64_t at = first[term]; at < first[term + 1];) {
            const std::uint32_t quartet = units[at] / kQuartetUnits;
            if (at > first[term] && units[at] <= units[at - 1]) throw std::invalid_argument("expected units to ascend");
            if (quartet >= shard_first_quartet.back()) throw std::invalid_argument("expected units of these shards");
            while (quartet >= shard_first_quartet[shard + 1]) ++shard;
            const std::uint32_t top = tops[term * num_shards + shard];
            std::uint32_t present = 0;
            std::array<std::uint32_t, kQuartetUnits> found{};
            for (; at < first[term + 1] && units[at] / kQuartetUnits == quartet; ++at) {
                if (codes[at] == 0 || codes[at] > top)
                    throw std::invalid_argument("expected codes from 1 to the largest");
                if ((present >> units[at] % kQuartetUnits) != 0)
                    throw std::invalid_argument("expected units to ascend");
                found[units[at] % kQuartetUnits] = value_of(codes[at], top);
                present |= 1U << units[at] % kQuartetUnits;
            }
            packer.quartet(quartet, present);
            for (std::uint32_t unit = 0; unit < kQuartetUnits; ++unit) {
                if ((present >> unit & 1U) != 0) packer.value(found[unit]);
            }
        }
        packer.finish();
    }
    return packed;
}

}  // namespace segmax
