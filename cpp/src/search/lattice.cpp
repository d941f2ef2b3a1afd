#include "segmax/search/lattice.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "segmax/base/errors.hpp"

namespace segmax {

Lattice::Lattice(std::vector<double> term_scale, std::vector<std::uint32_t> largest, bool wide)
    : term_scale_(std::move(term_scale)), largest_(std::move(largest)), wide_(wide) {
    if (term_scale_.size() != largest_.size() || largest_.size() > std::numeric_limits<std::uint32_t>::max()) {
        throw std::invalid_argument("expected term_scale and largest of one length, got " +
                                    std::to_string(term_scale_.size()) + " and " + std::to_string(largest_.size()));
    }
    const std::uint32_t most =
        wide ? std::numeric_limits<std::uint16_t>::max() : std::numeric_limits<std::uint8_t>::max();
    for (std::size_t term = 0; term < largest_.size(); ++term) {
        if (largest_[term] == 0) continue;
        if (largest_[term] > most) {
            throw std::invalid_argument("expected largest codes up to " + std::to_string(most) + ", got " +
                                        std::to_string(largest_[term]) + " for term " + std::to_string(term));
        }
        if (!(term_scale_[term] > 0) || !std::isfinite(term_scale_[term])) {
            throw std::invalid_argument("expected positive scales, got " + std::to_string(term_scale_[term]) +
                                        " for term " + std::to_string(term));
        }
    }
}

Lattice::Lattice(const Index& index)
    : term_scale_(index.arrays().term_scale.begin(), index.arrays().term_scale.end()),
      largest_(index.num_terms()),
      wide_(index.arrays().code_bytes > 1) {
    for (std::uint32_t term = 0; term < index.num_terms(); ++term) largest_[term] = index.largest_code(term);
}

void Lattice::check(const Index& index) const {
    for (std::uint32_t term = 0; term < index.num_terms(); ++term) {
        const std::uint32_t known = term < num_terms() ? largest_[term] : 0;
        if (index.largest_code(term) <= known) continue;
        throw FormatError("the index is damaged: term " + std::to_string(term) + " has the code " +
                          std::to_string(index.largest_code(term)) + ", and the largest of the collection is " +
                          std::to_string(known) + "; rebuild it or restore a copy");
    }
}

}  // namespace segmax
