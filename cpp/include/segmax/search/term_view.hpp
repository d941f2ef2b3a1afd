// One query term's part of the index, with lookups that never leave it, whatever the files say.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "segmax/index/index.hpp"
#include "segmax/search/query.hpp"

namespace segmax {

/// Consecutive postings of one term.
template <class Code>
struct Run {
    const std::uint16_t* ids = nullptr;
    const Code* codes = nullptr;
    std::uint32_t size = 0;
};

/// Asks for a range of memory that will be read soon: in order, it costs a fraction of what scattered misses do.
inline void prefetch_range(const void* data, std::size_t bytes) {
    constexpr std::size_t kLine = 64;
    const char* first = static_cast<const char*>(data);
    for (std::size_t at = 0; at < bytes; at += kLine) {
        __builtin_prefetch(first + at, 0, 2);
        // GCC drops calls of functions that only prefetch, as if they had no effect.
        asm volatile("");
    }
}

template <class Code>
struct TermView {
    std::uint32_t term = 0;
    std::uint32_t weight = 0;
    std::uint32_t num_pairs = 0;
    std::uint32_t num_postings = 0;
    std::uint64_t first_pair = 0;
    std::span<const std::uint32_t> chunks;     ///< of its pairs, ascending; empty if wide
    const std::uint64_t* bits = nullptr;       ///< narrow: chunks that have a pair
    const std::uint32_t* rank = nullptr;       ///< narrow: pairs before each word of `bits`
    const std::uint32_t* run_start = nullptr;  ///< by pair, relative to `ids`
    const std::uint16_t* ids = nullptr;
    const Code* codes = nullptr;
    const Code* cluster_max = nullptr;  ///< by pair
    const Code* segment_max = nullptr;  ///< by pair, num_segments each
    const Code* block_max = nullptr;    ///< by block; nullptr for a term that is not head
    bool wide = false;
    Code largest = 0;

    /// Whether the term occurs in the cluster that a chunk belongs to.
    bool has(std::uint32_t chunk) const {
        return wide ? cluster_max[chunk] != 0 : ((bits[chunk / 64] >> (chunk % 64)) & 1) != 0;
    }

    /// The pair of a chunk that has() is true for.
    std::uint32_t pair(std::uint32_t chunk) const { return std::min(pairs_before(chunk), num_pairs - 1); }

    Run<Code> run_of_pair(std::uint32_t pair) const { return between(pair, pair + 1); }
    Run<Code> run(std::uint32_t chunk) const { return run_of_pair(pair(chunk)); }

    /// The code of the document at a position of a chunk that has() is true for; 0 where it lacks the term.
    std::uint32_t code_at(Position position, std::uint32_t chunk) const {
        const Run<Code> postings = run(chunk);
        const auto id = static_cast<std::uint16_t>(position);
        // A chunk lies inside one window, so its ids ascend.
        const auto* found = std::lower_bound(postings.ids, postings.ids + postings.size, id);
        return found != postings.ids + postings.size && *found == id ? postings.codes[found - postings.ids] : 0U;
    }

    /// The postings of all chunks in [first, end).
    Run<Code> in_chunks(std::uint32_t first, std::uint32_t end, std::uint32_t num_chunks) const {
        return between(first == 0 ? 0 : pairs_before(first), end == num_chunks ? num_pairs : pairs_before(end));
    }

private:
    /// Pairs in chunks before this one.
    std::uint32_t pairs_before(std::uint32_t chunk) const {
        if (wide) return chunk;
        const std::uint64_t before = bits[chunk / 64] & ((std::uint64_t{1} << (chunk % 64)) - 1);
        return rank[chunk / 64] + static_cast<std::uint32_t>(std::popcount(before));
    }

    Run<Code> between(std::uint32_t first, std::uint32_t end) const {
        const std::uint32_t stop = end < num_pairs ? std::min(run_start[end], num_postings) : num_postings;
        const std::uint32_t start = first < num_pairs ? std::min(run_start[first], stop) : stop;
        return {ids + start, codes + start, stop - start};
    }
};

/// The terms of a query over one index. Reusable: `open` keeps its buffers.
template <class Code>
class QueryView {
public:
    void open(const Index& index, const PreparedQuery& query) {
        const std::size_t words = (index.num_chunks() + 63) / 64;
        bits_.resize(words * query.terms.size());
        rank_.resize(words * query.terms.size());
        terms_.resize(query.terms.size());
        for (std::size_t i = 0; i < terms_.size(); ++i) {
            open_term(index, query.terms[i], terms_[i]);
            if (!terms_[i].wide) index_chunks(index, terms_[i], words * i, words);
        }
    }

    std::span<const TermView<Code>> terms() const { return terms_; }

private:
    static void open_term(const Index& index, const QueryTerm& query, TermView<Code>& view) {
        const IndexArrays& a = index.arrays();
        const std::uint32_t t = query.term;
        view.term = t;
        view.weight = query.weight;
        view.num_pairs = static_cast<std::uint32_t>(index.num_pairs(t));
        view.num_postings = static_cast<std::uint32_t>(index.num_postings(t));
        view.first_pair = a.term_first_pair[t];
        view.run_start = a.run_start.data() + view.first_pair;
        view.ids = a.posting_id.data() + a.term_first_posting[t];
        view.codes = index.codes<Code>(a.posting_code) + a.term_first_posting[t];
        view.cluster_max = index.codes<Code>(a.cluster_max) + view.first_pair;
        view.segment_max = index.codes<Code>(a.segment_max) + view.first_pair * index.num_segments();
        view.block_max = index.is_head(t) ? index.codes<Code>(a.block_max) + index.block_max_offset(t) : nullptr;
        view.wide = index.is_wide(t);
        view.largest = index.codes<Code>(a.term_seed_code)[std::size_t{t} * kNumSeedRanks];
        view.chunks = view.wide ? std::span<const std::uint32_t>{}
                                : a.narrow_chunk.subspan(index.narrow_offset(t), view.num_pairs);
    }

    /// A narrow term's list of chunks as bitmap and rank: a lookup is two loads from the L1 cache.
    void index_chunks(const Index& index, TermView<Code>& view, std::size_t at, std::size_t words) {
        std::uint64_t* bits = bits_.data() + at;
        std::uint32_t* rank = rank_.data() + at;
        std::fill_n(bits, words, 0);
        for (const std::uint32_t chunk : view.chunks) {
            if (chunk < index.num_chunks()) bits[chunk / 64] |= std::uint64_t{1} << (chunk % 64);
        }
        std::uint32_t before = 0;
        for (std::size_t w = 0; w < words; ++w) {
            rank[w] = before;
            before += static_cast<std::uint32_t>(std::popcount(bits[w]));
        }
        view.bits = bits;
        view.rank = rank;
    }

    std::vector<TermView<Code>> terms_;
    std::vector<std::uint64_t> bits_;
    std::vector<std::uint32_t> rank_;
};

}  // namespace segmax
