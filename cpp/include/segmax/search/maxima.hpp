// What a router knows of shards: the largest codes of all terms in small groups of documents, rounded up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "segmax/search/query.hpp"

namespace segmax {

/// Groups of documents that share a mark: what is said about one term in all of them takes a byte and their values.
inline constexpr std::uint32_t kQuartetUnits = 4;
/// Sixteenths of the largest code of a term that a value is rounded up to; docs/format.md has the bytes.
inline constexpr std::uint32_t kMaximaSteps = 16;

/// The largest codes of terms in *units*, which are groups of documents. Four units are a quartet; those of a shard are
/// neighbors. A term has a mark for every quartet that has it, and a value of four bits for every unit of these that
/// has it.
struct MaximaArrays {
    std::uint32_t num_quartets = 0;
    std::span<const std::uint64_t> first_mark;   ///< by term, and one more: where its marks start
    std::span<const std::uint64_t> first_value;  ///< by term, and one more: the number of its first value
    std::span<const std::uint8_t> marks;
    std::span<const std::uint8_t> values;  ///< two in a byte
    std::span<const std::uint32_t> shard_first_quartet;
    /// By term and shard: the largest code, of which values are sixteenths.
    std::span<const std::uint16_t> tops;
};

/// What is known of every shard for one query. Integers are in the scale of the query.
struct ShardBounds {
    std::vector<std::uint64_t> most;         ///< the largest MaxSBound of its quartets: no document scores more
    std::vector<std::uint64_t> segment_sum;  ///< the largest 4 * AvgSBound of its quartets
    std::vector<double> promise;             ///< the larger, the more results it is expected to have
};

/// Checked arrays of maxima; immutable, safe to share. It does not own them.
class Maxima {
public:
    /// Throws FormatError where arrays do not fit together: afterwards no query reads outside of them.
    explicit Maxima(const MaximaArrays& arrays);

    std::uint32_t num_terms() const { return static_cast<std::uint32_t>(arrays_.first_mark.size() - 1); }
    std::uint32_t num_shards() const { return static_cast<std::uint32_t>(arrays_.shard_first_quartet.size() - 1); }

    /// Bounds of every shard; the promise is the sum of its ten best units.
    ShardBounds bounds(const PreparedQuery& query) const;
    /// The promise alone, for maxima that lack light codes and so bound nothing: by how much the units of a shard
    /// exceed the fortieth of all units.
    std::vector<double> promise(const PreparedQuery& query) const;

private:
    template <class Sum>
    ShardBounds bounds_by(const PreparedQuery& query) const;
    template <class Sum>
    void add_up(const PreparedQuery& query, std::vector<Sum>& sums, int shift) const;
    std::uint64_t most_of(const PreparedQuery& query) const;
    template <class Visit>
    void each_mark(std::uint32_t term, Visit&& visit) const;
    std::uint32_t four_values(std::uint64_t number) const;
    void check_term(std::uint32_t term) const;

    MaximaArrays arrays_;
};

/// Largest codes by term, units ascending: those of term t are `counts[t]` entries of `units` and `codes`.
struct CollectedMaxima {
    std::vector<std::uint32_t> counts, units;
    std::vector<std::uint16_t> codes;
};

/// Finds the largest code of every term in every unit, a few documents at a time.
class MaximaCollector {
public:
    /// Of every unit, only the `most` heaviest terms are kept, by code * scale; 0 keeps all, and needs no scales.
    MaximaCollector(std::uint32_t num_terms, std::uint32_t most, std::vector<double> scale);

    /// Takes in documents, each of one unit. All documents of a unit come together, and units of later calls are
    /// larger.
    template <class Code>
    void add(std::span<const std::int64_t> indptr, std::span<const std::uint32_t> terms, std::span<const Code> codes,
             std::span<const std::uint32_t> units);

    CollectedMaxima finish() const;

private:
    void keep_unit(std::uint32_t unit);

    std::uint32_t num_terms_;
    std::uint32_t most_;
    std::vector<double> scale_;
    std::vector<std::uint16_t> largest_;    // by term, of the unit at hand
    std::vector<std::uint32_t> has_terms_;  // of the unit at hand
    std::vector<std::uint32_t> terms_, units_;
    std::vector<std::uint16_t> codes_;
};

/// Maxima in the form that a router stores.
struct PackedMaxima {
    std::vector<std::uint64_t> first_mark, first_value;
    std::vector<std::uint8_t> marks, values;
};

/// Packs codes that are given term by term, units ascending: those of term t are [first[t], first[t + 1]). `tops` are
/// at least as large as every code of the term in the shard. Throws std::invalid_argument where that does not hold.
PackedMaxima pack_maxima(std::span<const std::uint64_t> first, std::span<const std::uint32_t> units,
                         std::span<const std::uint16_t> codes, std::span<const std::uint32_t> shard_first_quartet,
                         std::span<const std::uint16_t> tops);

}  // namespace segmax
