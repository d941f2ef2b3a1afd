// Clusters are walked in order, so every list comes out sorted by position. A narrow range of terms keeps what is
// written to in the cache; reading the documents once per range is cheap, because a row's terms ascend.
#include "segmax/index/builder.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace segmax {

namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFU;

void check(const StopFlag& stop) {
    if (stop.load(std::memory_order_relaxed)) throw Interrupted();
}

template <class Code, class Term>
class TermFiller {
public:
    TermFiller(const FillJob<Code, Term>& job, std::uint32_t first_term, std::uint32_t last_term)
        : job_(job),
          first_term_(first_term),
          last_term_(last_term),
          num_chunks_(static_cast<std::uint32_t>(job.chunk_num_docs.size())),
          num_blocks_(job.chunk_first_position.back() / kBlockDocs),
          sum_bytes_(Index::sum_bytes(job.num_segments, sizeof(Code))) {
        allocate();
    }

    TermArrays<Code> fill(const StopFlag& stop) {
        const auto num_clusters = static_cast<std::uint32_t>(job_.cluster_first.size() - 1);
        for (std::uint32_t cluster = 0; cluster < num_clusters; ++cluster) {
            fill_cluster(cluster);
            check(stop);
        }
        for (const TermState& term : terms_) {
            if (term.wide) finish_wide_runs(term);
        }
        find_seed_codes();
        return std::move(out_);
    }

private:
    /// Where a term's arrays start in the range, and how far they are filled.
    struct TermState {
        std::uint64_t first_posting = 0, first_pair = 0, first_narrow = 0, first_block = 0;
        std::uint64_t num_pairs = 0;
        std::uint64_t pair = 0;  // its first pair in the cluster being filled
        std::uint32_t last_cluster = kNone;
        std::uint32_t num_filled_pairs = 0, num_filled_postings = 0;
        bool wide = false, head = false;
    };

    void allocate() {
        terms_.resize(last_term_ - first_term_);
        std::uint64_t postings = 0;
        std::uint64_t pairs = 0;
        std::uint64_t narrow_pairs = 0;
        std::uint64_t block_codes = 0;
        for (std::uint32_t t = first_term_; t < last_term_; ++t) {
            TermState& term = terms_[t - first_term_];
            term.wide = Index::wide(job_.pairs[t], num_chunks_);
            term.head = Index::head(job_.postings[t], num_blocks_, job_.head_ratio);
            term.num_pairs = term.wide ? num_chunks_ : job_.pairs[t];
            term.first_posting = postings;
            term.first_pair = pairs;
            term.first_narrow = narrow_pairs;
            term.first_block = block_codes;
            postings += job_.postings[t];
            pairs += term.num_pairs;
            narrow_pairs += term.wide ? 0 : term.num_pairs;
            block_codes += term.head ? num_blocks_ : 0;
        }
        out_.narrow_chunk.resize(narrow_pairs);
        out_.run_start.resize(pairs);
        out_.cluster_max.resize(pairs);
        out_.segment_max.resize(pairs * job_.num_segments);
        out_.segment_sum.resize(pairs * sum_bytes_);
        out_.block_max.resize(block_codes);
        out_.posting_id.resize(postings);
        out_.posting_code.resize(postings);
    }

    void fill_cluster(std::uint32_t cluster) {
        touched_.clear();
        const std::uint32_t first = job_.cluster_first_chunk[cluster];
        const std::uint32_t end = job_.cluster_first_chunk[cluster + 1];
        std::uint32_t at = job_.cluster_first[cluster];
        for (std::uint32_t chunk = first; chunk < end; ++chunk) {
            // A term seen in an earlier chunk of this cluster: its run in this chunk starts where the list is now.
            for (const TermState* term : touched_) {
                out_.run_start[term->pair + (chunk - first)] = term->num_filled_postings;
            }
            fill_chunk(cluster, chunk, at);
            at += job_.chunk_num_docs[chunk];
        }
        for (const TermState* term : touched_) finish_pairs(*term, end - first);
    }

    void fill_chunk(std::uint32_t cluster, std::uint32_t chunk, std::uint32_t at) {
        const Position start = job_.chunk_first_position[chunk];
        for (std::uint32_t i = 0; i < job_.chunk_num_docs[chunk]; ++i) {
            const std::uint32_t slot = job_.order[at + i];
            const Position position = start + i;
            const std::uint32_t segment = job_.segments[slot];
            const Term* begin = job_.docs.terms.data() + job_.docs.indptr[slot];
            const Term* end = job_.docs.terms.data() + job_.docs.indptr[slot + 1];
            const Term* entry = first_term_ == 0 ? begin : std::lower_bound(begin, end, first_term_);
            const Code* code = job_.docs.codes.data() + (entry - job_.docs.terms.data());
            for (; entry != end && *entry < last_term_; ++entry, ++code) {
                add(terms_[*entry - first_term_], cluster, position, segment, *code);
            }
        }
    }

    void add(TermState& term, std::uint32_t cluster, Position position, std::uint32_t segment, Code code) {
        if (term.last_cluster != cluster) open_pairs(term, cluster);
        Code& best = out_.segment_max[term.pair * job_.num_segments + segment];
        best = std::max(best, code);
        if (term.head) {
            Code& block = out_.block_max[term.first_block + position / kBlockDocs];
            block = std::max(block, code);
        }
        const std::uint64_t at = term.first_posting + term.num_filled_postings++;
        out_.posting_id[at] = static_cast<std::uint16_t>(position);
        out_.posting_code[at] = code;
    }

    /// Gives the term its pairs for the chunks of a new cluster.
    void open_pairs(TermState& term, std::uint32_t cluster) {
        const std::uint32_t first = job_.cluster_first_chunk[cluster];
        const std::uint32_t end = job_.cluster_first_chunk[cluster + 1];
        const std::uint64_t place = term.wide ? first : term.num_filled_pairs;
        term.last_cluster = cluster;
        term.pair = term.first_pair + place;
        for (std::uint32_t chunk = first; chunk < end; ++chunk) {
            out_.run_start[term.pair + (chunk - first)] = term.num_filled_postings;
            if (!term.wide) out_.narrow_chunk[term.first_narrow + place + (chunk - first)] = chunk;
        }
        term.num_filled_pairs += end - first;
        touched_.push_back(&term);
    }

    /// Every chunk of a cluster carries the cluster's maxima, so that a pair serves both its run and its bounds.
    void finish_pairs(const TermState& term, std::uint32_t num_chunks) {
        const std::size_t n = job_.num_segments;
        const Code* segments = out_.segment_max.data() + term.pair * n;
        Code best = 0;
        std::uint32_t sum = 0;
        for (std::size_t s = 0; s < n; ++s) {
            best = std::max(best, segments[s]);
            sum += segments[s];
        }
        for (std::uint32_t i = 0; i < num_chunks; ++i) {
            const std::uint64_t pair = term.pair + i;
            out_.cluster_max[pair] = best;
            std::memcpy(out_.segment_sum.data() + pair * sum_bytes_, &sum, sum_bytes_);  // little endian
            if (i > 0) std::copy_n(segments, n, out_.segment_max.data() + pair * n);
        }
    }

    /// A chunk that a wide term does not occur in has an empty run: it starts where the next one does.
    void finish_wide_runs(const TermState& term) {
        std::uint32_t next = term.num_filled_postings;
        for (std::uint64_t pair = term.first_pair + term.num_pairs; pair-- > term.first_pair;) {
            if (out_.cluster_max[pair] == 0) out_.run_start[pair] = next;
            next = out_.run_start[pair];
        }
    }

    /// The code at each of kSeedRanks in descending order; 0 where the list is shorter. By counting: sorting even the
    /// first thousand would take as long as all the rest.
    void find_seed_codes() {
        constexpr std::size_t kNumCodes = std::size_t{1} << (8 * sizeof(Code));
        std::vector<std::uint32_t> counts(kNumCodes);
        for (const TermState& term : terms_) {
            const auto codes = std::span(out_.posting_code).subspan(term.first_posting, term.num_filled_postings);
            for (const Code code : codes) ++counts[code];
            std::size_t code = codes.empty() ? 0 : *std::max_element(codes.begin(), codes.end());
            std::uint64_t seen = counts[code];
            for (const std::uint32_t rank : kSeedRanks) {
                while (seen < rank && code > 0) seen += counts[--code];
                out_.term_seed_code.push_back(static_cast<Code>(code));
            }
            for (const Code used : codes) counts[used] = 0;
        }
    }

    const FillJob<Code, Term>& job_;
    std::uint32_t first_term_, last_term_;
    std::uint32_t num_chunks_, num_blocks_, sum_bytes_;
    std::vector<TermState> terms_;
    std::vector<const TermState*> touched_;
    TermArrays<Code> out_;
};

}  // namespace

template <class Code, class Term>
void gather_rows(const CodedDocs<Code, Term>& part, std::span<const std::uint32_t> slots, std::uint32_t first_slot,
                 std::span<const std::int64_t> out_indptr, std::span<Term> out_terms, std::span<Code> out_codes) {
    const std::size_t num_slots = out_indptr.size() - 1;
    for (std::size_t row = 0; row < slots.size(); ++row) {
        const std::size_t slot = std::size_t{slots[row]} - first_slot;  // wraps to something large if below
        if (slot >= num_slots) continue;
        const auto from = static_cast<std::size_t>(part.indptr[row]);
        const auto count = static_cast<std::size_t>(part.indptr[row + 1]) - from;
        const auto to = static_cast<std::size_t>(out_indptr[slot] - out_indptr[0]);
        std::copy_n(part.terms.data() + from, count, out_terms.data() + to);
        std::copy_n(part.codes.data() + from, count, out_codes.data() + to);
    }
}

ChunkLayout lay_out_chunks(std::span<const std::uint32_t> cluster_first) {
    ChunkLayout layout;
    layout.cluster_first_chunk.push_back(0);
    std::uint64_t position = 0;
    for (std::size_t cluster = 0; cluster + 1 < cluster_first.size(); ++cluster) {
        std::uint32_t left = cluster_first[cluster + 1] - cluster_first[cluster];
        while (left > 0) {
            const auto room = static_cast<std::uint32_t>(kWindowDocs - position % kWindowDocs);
            const std::uint32_t size = std::min({left, room, kMaxChunkDocs});
            layout.chunk_first_position.push_back(static_cast<std::uint32_t>(position));
            layout.chunk_num_docs.push_back(size);
            position += std::uint64_t{blocks_of(size)} * kBlockDocs;
            left -= size;
        }
        layout.cluster_first_chunk.push_back(static_cast<std::uint32_t>(layout.chunk_num_docs.size()));
    }
    if (position >= kNoRow) throw std::length_error("the collection is too large: 4,294,967,294 places at most");
    layout.chunk_first_position.push_back(static_cast<std::uint32_t>(position));
    return layout;
}

template <class Code, class Term>
void count_terms(const CodedDocs<Code, Term>& docs, std::span<const std::uint32_t> cluster_first,
                 std::span<const std::uint32_t> cluster_first_chunk, std::uint32_t first, std::uint32_t last,
                 std::span<std::uint64_t> postings, std::span<std::uint64_t> pairs, const StopFlag& stop) {
    std::vector<std::uint32_t> last_cluster(docs.num_terms, kNone);
    for (std::uint32_t cluster = first; cluster < last; ++cluster) {
        const std::uint32_t num_chunks = cluster_first_chunk[cluster + 1] - cluster_first_chunk[cluster];
        const auto begin = static_cast<std::size_t>(docs.indptr[cluster_first[cluster]]);
        const auto end = static_cast<std::size_t>(docs.indptr[cluster_first[cluster + 1]]);
        for (const Term term : docs.terms.subspan(begin, end - begin)) {
            ++postings[term];
            if (last_cluster[term] == cluster) continue;
            last_cluster[term] = cluster;
            pairs[term] += num_chunks;
        }
        check(stop);
    }
}

TermPlan plan_terms(std::span<const std::uint64_t> postings, std::span<const std::uint64_t> pairs,
                    std::uint32_t num_chunks, std::uint32_t num_blocks, std::uint32_t num_segments,
                    std::uint32_t head_ratio, std::uint32_t code_bytes) {
    TermPlan plan;
    plan.term_first_pair.push_back(0);
    const std::uint64_t sum_bytes = Index::sum_bytes(num_segments, code_bytes);
    for (std::size_t t = 0; t < postings.size(); ++t) {
        const bool wide = Index::wide(pairs[t], num_chunks);
        const std::uint64_t num_pairs = wide ? num_chunks : pairs[t];
        const std::uint64_t pair_bytes = (wide ? 4 : 8) + code_bytes * (1 + std::uint64_t{num_segments}) + sum_bytes;
        const std::uint64_t num_block_codes = Index::head(postings[t], num_blocks, head_ratio) ? num_blocks : 0;
        plan.term_first_pair.push_back(plan.term_first_pair.back() + num_pairs);
        plan.term_bytes.push_back(num_pairs * pair_bytes + postings[t] * (2 + code_bytes) +
                                  (num_block_codes + kNumSeedRanks) * code_bytes);
    }
    return plan;
}

template <class Code, class Term>
TermArrays<Code> fill_terms(const FillJob<Code, Term>& job, std::uint32_t first_term, std::uint32_t last_term,
                            const StopFlag& stop) {
    return TermFiller<Code, Term>(job, first_term, last_term).fill(stop);
}

#define SEGMAX_BUILDER(Code, Term)                                                                                    \
    template void gather_rows(const CodedDocs<Code, Term>&, std::span<const std::uint32_t>, std::uint32_t,            \
                              std::span<const std::int64_t>, std::span<Term>, std::span<Code>);                       \
    template void count_terms(const CodedDocs<Code, Term>&, std::span<const std::uint32_t>,                           \
                              std::span<const std::uint32_t>, std::uint32_t, std::uint32_t, std::span<std::uint64_t>, \
                              std::span<std::uint64_t>, const StopFlag&);                                             \
    template TermArrays<Code> fill_terms(const FillJob<Code, Term>&, std::uint32_t, std::uint32_t, const StopFlag&);

SEGMAX_BUILDER(std::uint8_t, std::uint16_t)
SEGMAX_BUILDER(std::uint8_t, std::uint32_t)
SEGMAX_BUILDER(std::uint16_t, std::uint16_t)
SEGMAX_BUILDER(std::uint16_t, std::uint32_t)
#undef SEGMAX_BUILDER

}  // namespace segmax
