#include "segmax/index/project.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace segmax {

namespace {

/// out[i] += factor * row[i]. Multiplied and added apart, never fused, so that every build gives the same bits.
void add_scaled(float* __restrict out, const float* __restrict row, float factor, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out[i] += factor * row[i];
}

/// Square roots of all codes of 8 bits; of larger ones as they come.
template <class Code>
class Roots {
public:
    Roots() {
        if constexpr (sizeof(Code) == 1) {
            for (std::size_t code = 0; code < table_.size(); ++code) table_[code] = std::sqrt(static_cast<float>(code));
        }
    }
    float operator()(Code code) const {
        if constexpr (sizeof(Code) == 1) {
            return table_[code];
        } else {
            return std::sqrt(static_cast<float>(code));
        }
    }

private:
    std::vector<float> table_ = std::vector<float>(sizeof(Code) == 1 ? 256 : 0);
};

template <class Code, class Term, class Visit>
void each_posting(const CodedDocs<Code, Term>& docs, const TermRows& terms, Visit visit) {
    const Roots<Code> root;
    for (std::uint32_t d = 0; d < docs.num_docs(); ++d) {
        const auto end = static_cast<std::size_t>(docs.indptr[d + 1]);
        for (auto i = static_cast<std::size_t>(docs.indptr[d]); i < end; ++i) {
            const std::int32_t row = terms.row_of_term[docs.terms[i]];
            if (row >= 0) visit(d, static_cast<std::size_t>(row), root(docs.codes[i]));
        }
    }
}

}  // namespace

template <class Code, class Term>
void project_rows(const CodedDocs<Code, Term>& docs, const TermRows& terms, std::span<const float> matrix,
                  std::span<float> out) {
    assert(out.size() == std::size_t{docs.num_docs()} * terms.num_dims);
    const std::size_t dims = terms.num_dims;
    std::fill(out.begin(), out.end(), 0.0F);
    each_posting(docs, terms, [&](std::size_t d, std::size_t row, float root) {
        add_scaled(out.data() + d * dims, matrix.data() + row * dims, root, dims);
    });
}

template <class Code, class Term>
void project_back(const CodedDocs<Code, Term>& docs, const TermRows& terms, std::span<const float> points,
                  std::span<float> out) {
    assert(points.size() == std::size_t{docs.num_docs()} * terms.num_dims);
    const std::size_t dims = terms.num_dims;
    std::fill(out.begin(), out.end(), 0.0F);
    each_posting(docs, terms, [&](std::size_t d, std::size_t row, float root) {
        add_scaled(out.data() + row * dims, points.data() + d * dims, root, dims);
    });
}

#define SEGMAX_PROJECT(Code, Term)                                                                    \
    template void project_rows(const CodedDocs<Code, Term>&, const TermRows&, std::span<const float>, \
                               std::span<float>);                                                     \
    template void project_back(const CodedDocs<Code, Term>&, const TermRows&, std::span<const float>, std::span<float>);

SEGMAX_PROJECT(std::uint8_t, std::uint16_t)
SEGMAX_PROJECT(std::uint8_t, std::uint32_t)
SEGMAX_PROJECT(std::uint16_t, std::uint16_t)
SEGMAX_PROJECT(std::uint16_t, std::uint32_t)
#undef SEGMAX_PROJECT

}  // namespace segmax
