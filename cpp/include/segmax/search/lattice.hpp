// What a query's weights become integers by: the scales and largest codes of all terms.
#pragma once

#include <cstdint>
#include <vector>

#include "segmax/index/index.hpp"

namespace segmax {

/// The scale and the largest code of every term. An index has its own; indexes that are searched together share one, so
/// that a query becomes the same integers for all of them. Immutable and safe to share between threads.
class Lattice {
public:
    /// `largest` is 0 for a term that no document has. Throws std::invalid_argument where a largest code does not fit
    /// 16 bits, or the scale of a term that has one is no positive number.
    Lattice(std::vector<double> term_scale, std::vector<std::uint32_t> largest, bool wide);
    /// That of one index.
    explicit Lattice(const Index& index);

    std::uint32_t num_terms() const { return static_cast<std::uint32_t>(largest_.size()); }
    bool knows(std::int64_t term) const {
        return term >= 0 && term < num_terms() && largest_[static_cast<std::size_t>(term)] > 0;
    }
    double scale(std::uint32_t term) const { return term_scale_[term]; }
    std::uint32_t largest_code(std::uint32_t term) const { return largest_[term]; }
    /// Whether codes may pass 8 bits.
    bool wide() const { return wide_; }

    /// Throws FormatError where an index has a code above the largest: the sums that a query needs would not fit.
    void check(const Index& index) const;

private:
    std::vector<double> term_scale_;
    std::vector<std::uint32_t> largest_;
    bool wide_;
};

}  // namespace segmax
