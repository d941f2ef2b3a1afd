// The terms of a query over one index.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "index/term_view.hpp"
#include "kernels/kernels.hpp"
#include "segmax/index/index.hpp"
#include "segmax/search/query.hpp"

namespace segmax {

/// The terms of a query that an index has. Reusable: `open` keeps its buffers.
template <class Code>
class QueryView {
public:
    void open(const Index& index, const PreparedQuery& query) {
        const std::size_t words = (index.num_clusters() + 63) / 64;
        bits_.resize(words * query.terms.size());
        rank_.resize(words * query.terms.size());
        terms_.resize(query.terms.size());
        entries_.resize(index.num_zones() * query.terms.size());
        std::size_t i = 0;
        for (const QueryTerm& t : query.terms) index.prefetch(t.term);
        for (const QueryTerm& t : query.terms) {
            if (!index.has_term(t.term)) continue;
            terms_[i].open(index, t.term, t.weight, entries_.data() + index.num_zones() * i);
            prefetch(terms_[i]);
            terms_[i].bits = bits_.data() + words * i;
            terms_[i].rank = rank_.data() + words * i;
            ++i;
        }
        terms_.resize(i);
        num_clusters_ = index.num_clusters();
        indexed_ = false;
    }

    /// Makes has() and pair() of narrow terms work; searches that never ask for one cluster do without.
    void index_clusters() {
        if (indexed_) return;
        indexed_ = true;
        const std::size_t words = (num_clusters_ + 63) / 64;
        for (std::size_t i = 0; i < terms_.size(); ++i) {
            if (!terms_[i].wide) index_clusters_of(terms_[i], words * i, words);
        }
    }

    std::span<const TermView<Code>> terms() const { return terms_; }

private:
    /// Asks for what bounds are made of first. In a small index that is all there is.
    static void prefetch(const TermView<Code>& term) {
        if (term.head) {
            __builtin_prefetch(term.levels);
            __builtin_prefetch(term.block_max);
        } else {
            __builtin_prefetch(term.zones[0].blocks);
            __builtin_prefetch(term.zones[0].maxima);
        }
    }

    /// A narrow term's list of clusters as bitmap and rank: a lookup is two loads from the L1 cache.
    void index_clusters_of(const TermView<Code>& view, std::size_t at, std::size_t words) {
        std::uint64_t* bits = bits_.data() + at;
        std::fill_n(bits, words, 0);
        for (const std::uint32_t cluster : view.clusters) {
            if (cluster < num_clusters_) bits[cluster / 64] |= std::uint64_t{1} << (cluster % 64);
        }
        std::uint32_t before = 0;
        for (std::size_t w = 0; w < words; ++w) {
            rank_[at + w] = before;
            before += static_cast<std::uint32_t>(std::popcount(bits[w]));
        }
    }

    std::vector<TermView<Code>> terms_;
    std::vector<EntryList<Code>> entries_;  // of each term and zone
    std::vector<std::uint64_t> bits_;
    std::vector<std::uint32_t> rank_;
    std::uint32_t num_clusters_ = 0;
    bool indexed_ = false;
};

}  // namespace segmax
