// Clusters are walked in order, so every list comes out sorted by position. A narrow range of terms keeps what is
// written to in the cache; reading the documents once per range is cheap, because a row's terms ascend.
#include "segmax/index/builder.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "index/levels.hpp"

namespace segmax {

namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFU;

void check(const StopFlag& stop) {
    if (stop.load(std::memory_order_relaxed)) throw Interrupted();
}

template <class Code>
struct Posting {
    Position position;
    Code code;
};

/// The postings of one term after the other, turned into what the index keeps of them.
template <class Code>
class PostingWriter {
public:
    PostingWriter(TermArrays<Code>& out, std::uint32_t num_positions, bool quick)
        : out_(out),
          num_spans_(tiles_of(num_positions) * kTileSpans),
          num_zones_(zones_of(num_positions)),
          quick_(quick) {}

    /// A head term: its levels, its runs, span by span, and its rows.
    void write_head(std::span<const Posting<Code>> postings) {
        const std::size_t first_byte = out_.run_bytes.size();
        std::size_t at = 0;
        for (std::uint32_t span = 0; span < num_spans_; ++span) {
            start_run(span, out_.run_bytes.size() - first_byte);
            const std::size_t begin = at;
            while (at < postings.size() && postings[at].position / kSpanDocs == span) ++at;
            write_run(postings.subspan(begin, at - begin));
        }
        start_run(num_spans_, out_.run_bytes.size() - first_byte);
        if (out_.run_bytes.size() - first_byte > std::numeric_limits<std::uint32_t>::max()) {
            throw std::length_error("a term occurs in too many documents: its runs take more than 4 GiB");
        }
        write_levels(postings);
        write_rows();
        out_.term_num_bytes.push_back(out_.run_bytes.size() - first_byte);
        out_.term_num_entries.resize(out_.term_num_entries.size() + num_zones_);
    }

    /// A tail term: an entry per block, all its codes, and levels for a row of segment maxima, whether there is one or
    /// not.
    void write_tail(std::span<const Posting<Code>> postings, bool has_levels, bool has_row) {
        const std::size_t first_zone = out_.term_num_entries.size();
        const std::size_t first_code = out_.entry_code.size();
        out_.term_num_entries.resize(first_zone + num_zones_);
        for (const auto& [position, code] : postings) {
            const std::uint32_t block = position / kBlockDocs % kZoneBlocks;
            std::uint64_t& num_entries = out_.term_num_entries[first_zone + position / kBlockDocs / kZoneBlocks];
            if (num_entries == 0 || out_.entry_block.back() != block) {
                if (num_entries++ % kGroupEntries == 0) {
                    out_.group_start.push_back(static_cast<std::uint32_t>(out_.entry_code.size() - first_code));
                }
                out_.entry_block.push_back(static_cast<std::uint16_t>(block));
                out_.entry_max.push_back(0);
                out_.entry_mask.push_back(0);
            }
            out_.entry_max.back() = std::max(out_.entry_max.back(), code);
            out_.entry_mask.back() |= static_cast<std::uint8_t>(1U << (position % kBlockDocs));
            out_.entry_code.push_back(code);
        }
        out_.term_num_bytes.push_back(0);
        if (has_levels && (has_row || !quick_)) {
            write_levels(postings);
        } else if (has_levels) {
            out_.level.resize(out_.level.size() + kNumLevels);  // nothing reads them
        }
    }

    /// The level of the last written term that a maximum is rounded up to.
    std::uint32_t level_of(Code maximum) const {
        std::uint32_t below = 0;  // all 16 at once: a binary search mispredicts
        for (const Code level : levels_) below += level < maximum ? 1U : 0U;
        return below;
    }

    static void put_level(std::uint8_t* row, std::uint64_t place, std::uint32_t level) {
        const auto inside = static_cast<std::uint32_t>(place % kSpanBlocks);
        row[place / kSpanBlocks * kSpanBytes + inside % kSpanBytes] |=
            static_cast<std::uint8_t>(level << (inside / kSpanBytes * 4));
    }

private:
    void start_run(std::uint32_t span, std::size_t place) {
        if (span % kBaseSpans == 0) out_.run_base.push_back(static_cast<std::uint32_t>(place));
        // A span takes 32 bytes of bitmap and two for each of 256 documents at most.
        static_assert(kBaseSpans * (kSpanBlocks + 2 * kSpanDocs) <= std::numeric_limits<std::uint16_t>::max());
        out_.run_start.push_back(static_cast<std::uint16_t>(place - out_.run_base.back()));
    }

    void write_run(std::span<const Posting<Code>> run) {
        auto& bytes = out_.run_bytes;
        const bool is_listed = run.size() <= kMaxListed;
        const std::size_t first = bytes.size();
        const std::size_t codes = first + (is_listed ? run.size() : std::size_t{kSpanBlocks});
        bytes.resize(codes + run.size() * sizeof(Code));
        std::uint8_t* places = bytes.data() + first;
        for (std::size_t i = 0; i < run.size(); ++i) {
            const std::uint32_t place = run[i].position % kSpanDocs;
            if (is_listed) {
                places[i] = static_cast<std::uint8_t>(place);
            } else {
                places[place / kBlockDocs] |= static_cast<std::uint8_t>(1U << (place % kBlockDocs));
            }
            std::memcpy(bytes.data() + codes + i * sizeof(Code), &run[i].code, sizeof(Code));  // little endian
        }
    }

    /// The 16 levels of a term, chosen for the maxima of its blocks.
    void write_levels(std::span<const Posting<Code>> postings) {
        block_.clear();
        best_.clear();
        for (const auto& [position, code] : postings) {
            if (block_.empty() || block_.back() != position / kBlockDocs) {
                block_.push_back(position / kBlockDocs);
                best_.push_back(0);
            }
            best_.back() = std::max(best_.back(), code);
        }
        levels_ = quick_ ? spread_levels<Code>(best_) : choose_levels<Code>(best_);
        out_.level.insert(out_.level.end(), levels_.begin(), levels_.end());
    }

    /// The level of every block, and the highest of every quad.
    void write_rows() {
        const std::size_t blocks = out_.block_max.size();
        const std::size_t quads = out_.quad_max.size();
        out_.block_max.resize(blocks + level_row_bytes(std::uint64_t{num_spans_} * kSpanBlocks));
        out_.quad_max.resize(quads + level_row_bytes(std::uint64_t{num_spans_} * kSpanBlocks / kQuadBlocks));
        for (std::size_t i = 0; i < block_.size();) {
            const std::uint32_t quad = block_[i] / kQuadBlocks;
            std::uint32_t highest = 0;
            for (; i < block_.size() && block_[i] / kQuadBlocks == quad; ++i) {
                const std::uint32_t level = level_of(best_[i]);
                put_level(out_.block_max.data() + blocks, block_[i], level);
                highest = std::max(highest, level);
            }
            put_level(out_.quad_max.data() + quads, quad, highest);
        }
    }

    TermArrays<Code>& out_;
    std::uint32_t num_spans_, num_zones_;
    bool quick_;
    std::vector<std::uint32_t> block_;  // blocks of a term,
    std::vector<Code> best_;            // and their maxima
    std::array<Code, kNumLevels> levels_ = {};
};

template <class Code, class Term>
class TermFiller {
public:
    TermFiller(const FillJob<Code, Term>& job, std::uint32_t first_term, std::uint32_t last_term)
        : job_(job),
          first_term_(first_term),
          last_term_(last_term),
          num_clusters_(static_cast<std::uint32_t>(job.cluster_first.size() - 1)),
          num_positions_(job.cluster_first_position.back()) {
        allocate();
    }

    TermArrays<Code> fill(const StopFlag& stop) {
        for (std::uint32_t cluster = 0; cluster < num_clusters_; ++cluster) {
            fill_cluster(cluster);
            check(stop);
        }
        PostingWriter<Code> writer(out_, num_positions_, job_.quick);
        for (std::uint32_t t = first_term_; t < last_term_; ++t) {
            const TermPlace& term = terms_[t - first_term_];
            const TermState& state = states_[t - first_term_];
            const auto postings =
                std::span(postings_).subspan(term.first_posting, state.next_posting - term.first_posting);
            if (Index::head(job_.postings[t], num_positions_, job_.head_ratio)) {
                writer.write_head(postings);
            } else {
                writer.write_tail(postings, term.wide, job_.num_segments > 1);
                if (!job_.quick) write_starts(term, term.wide ? num_clusters_ : state.num_filled_pairs);
            }
            write_segments(term, state.num_filled_pairs, writer);
            find_top_codes(postings);
            check(stop);
        }
        return std::move(out_);
    }

private:
    /// Where a term's arrays start in the range.
    struct TermPlace {
        std::uint64_t first_posting = 0, first_pair = 0, first_narrow = 0;
        bool wide = false;
    };
    /// How far they are filled. Apart from the other, because every posting comes by here: small enough for the cache.
    struct TermState {
        std::uint64_t next_posting = 0;
        std::uint64_t pair = 0;  // its pair of the cluster being filled
        std::uint32_t last_cluster = kNone;
        std::uint32_t num_filled_pairs = 0;
    };

    void allocate() {
        terms_.resize(last_term_ - first_term_);
        states_.resize(terms_.size());
        std::uint64_t postings = 0;
        std::uint64_t pairs = 0;
        std::uint64_t narrow_pairs = 0;
        Reserve most;
        for (std::uint32_t t = first_term_; t < last_term_; ++t) {
            TermPlace& term = terms_[t - first_term_];
            term.wide = Index::wide(job_.pairs[t], num_clusters_);
            const std::uint64_t num_pairs = term.wide ? num_clusters_ : job_.pairs[t];
            term.first_posting = postings;
            states_[t - first_term_].next_posting = postings;
            term.first_pair = pairs;
            term.first_narrow = narrow_pairs;
            postings += job_.postings[t];
            pairs += num_pairs;
            narrow_pairs += term.wide ? 0 : num_pairs;
            most.wide += term.wide ? 1 : 0;
            most.pairs += num_pairs;
            if (Index::head(job_.postings[t], num_positions_, job_.head_ratio)) {
                ++most.heads;
                most.run_bytes += job_.postings[t] * (1 + sizeof(Code));
            } else {
                most.tail_postings += job_.postings[t];
                most.tail_pairs += num_pairs;
                most.groups += Index::most_groups_of(job_.postings[t], zones_of(num_positions_));
            }
        }
        reserve(most);
        out_.narrow_cluster.resize(narrow_pairs);
        out_.cluster_max.resize(pairs);
        out_.segment_mask.resize(narrow_pairs * segment_mask_bytes(job_.num_segments));
        segment_codes_.resize(pairs * job_.num_segments);
        postings_.resize(postings);
    }

    /// What head and tail terms take at most.
    struct Reserve {
        std::uint64_t heads = 0, wide = 0, run_bytes = 0, tail_postings = 0, pairs = 0, tail_pairs = 0, groups = 0;
    };

    /// Growing arrays would be copied, and for a moment take more than planned. Reserved memory that is not used is
    /// never touched.
    void reserve(const Reserve& most) {
        const std::size_t num_spans = std::size_t{tiles_of(num_positions_)} * kTileSpans;
        out_.term_num_bytes.reserve(terms_.size());
        out_.term_num_entries.reserve(terms_.size() * zones_of(num_positions_));
        out_.term_top_code.reserve(terms_.size() * kNumTopRanks);
        out_.level.reserve((most.heads + most.wide) * kNumLevels);
        out_.segment_max.reserve(most.wide * Index::segment_row_bytes(num_clusters_, job_.num_segments));
        out_.quad_max.reserve(most.heads * level_row_bytes(num_spans * kSpanBlocks / kQuadBlocks));
        out_.block_max.reserve(most.heads * num_spans * kSpanBytes);
        out_.run_base.reserve(most.heads * Index::num_bases(num_spans));
        out_.run_start.reserve(most.heads * (num_spans + 1));
        out_.run_bytes.reserve(most.run_bytes);
        out_.entry_block.reserve(most.tail_postings);
        out_.entry_max.reserve(most.tail_postings);
        out_.entry_mask.reserve(most.tail_postings);
        out_.group_start.reserve(most.groups);
        out_.entry_code.reserve(most.tail_postings);
        if (!job_.quick) out_.pair_entry.reserve(most.tail_pairs);
        if (job_.exact_segments && job_.num_segments > 1) out_.segment_code.reserve(most.pairs * job_.num_segments);
    }

    void fill_cluster(std::uint32_t cluster) {
        touched_.clear();
        Position position = job_.cluster_first_position[cluster];
        for (std::uint32_t at = job_.cluster_first[cluster]; at < job_.cluster_first[cluster + 1]; ++at) {
            add_document(cluster, job_.order[at], position++);
        }
        for (const std::uint64_t pair : touched_) finish_pair(pair);
    }

    void add_document(std::uint32_t cluster, std::uint32_t slot, Position position) {
        const std::uint32_t segment = job_.segments[slot];
        const Term* begin = job_.docs.terms.data() + job_.docs.indptr[slot];
        const Term* end = job_.docs.terms.data() + job_.docs.indptr[slot + 1];
        const Term* entry = first_term_ == 0 ? begin : std::lower_bound(begin, end, first_term_);
        const Code* code = job_.docs.codes.data() + (entry - job_.docs.terms.data());
        for (; entry != end && *entry < last_term_; ++entry, ++code) {
            add(*entry - first_term_, cluster, position, segment, *code);
        }
    }

    void add(std::size_t term, std::uint32_t cluster, Position position, std::uint32_t segment, Code code) {
        TermState& state = states_[term];
        if (state.last_cluster != cluster) open_pair(terms_[term], state, cluster);
        Code& best = segment_codes_[state.pair * job_.num_segments + segment];
        best = std::max(best, code);
        postings_[state.next_posting++] = {position, code};
    }

    /// Gives the term its pair for a new cluster.
    void open_pair(const TermPlace& term, TermState& state, std::uint32_t cluster) {
        const std::uint64_t place = term.wide ? cluster : state.num_filled_pairs;
        state.last_cluster = cluster;
        state.pair = term.first_pair + place;
        if (!term.wide) out_.narrow_cluster[term.first_narrow + place] = cluster;
        ++state.num_filled_pairs;
        touched_.push_back(state.pair);
    }

    void finish_pair(std::uint64_t pair) {
        const Code* segments = segment_codes_.data() + pair * job_.num_segments;
        out_.cluster_max[pair] = *std::max_element(segments, segments + job_.num_segments);
    }

    /// A wide term's row of segment maxima, by the levels that were just written; a narrow term's segments.
    void write_segments(const TermPlace& term, std::uint32_t num_pairs, const PostingWriter<Code>& writer) {
        if (job_.num_segments == 1) return;
        const Code* segments = segment_codes_.data() + term.first_pair * job_.num_segments;
        if (job_.exact_segments) {
            const std::uint64_t count = std::uint64_t{term.wide ? num_clusters_ : num_pairs} * job_.num_segments;
            out_.segment_code.insert(out_.segment_code.end(), segments, segments + count);
        }
        if (term.wide) {
            const std::size_t row = out_.segment_max.size();
            out_.segment_max.resize(row + Index::segment_row_bytes(num_clusters_, job_.num_segments));
            const std::uint64_t count = std::uint64_t{num_clusters_} * job_.num_segments;
            for (std::uint64_t i = 0; i < count; ++i) {
                writer.put_level(out_.segment_max.data() + row, i, writer.level_of(segments[i]));
            }
            return;
        }
        const std::size_t bytes = segment_mask_bytes(job_.num_segments);
        for (std::uint32_t pair = 0; pair < num_pairs; ++pair, segments += job_.num_segments) {
            std::uint8_t* mask = out_.segment_mask.data() + (term.first_narrow + pair) * bytes;
            for (std::uint32_t s = 0; s < job_.num_segments; ++s) {
                mask[s / 8] |= static_cast<std::uint8_t>((segments[s] != 0 ? 1U : 0U) << (s % 8));
            }
        }
    }

    /// Where the entries of each pair of the tail term that was just written start in the zone of its cluster's first
    /// block: after those of as many blocks before it, so 16 bits are enough.
    void write_starts(const TermPlace& term, std::uint32_t num_pairs) {
        const std::uint32_t num_zones = zones_of(num_positions_);
        const std::uint64_t* counts = out_.term_num_entries.data() + out_.term_num_entries.size() - num_zones;
        const std::uint16_t* blocks = out_.entry_block.data() + out_.entry_block.size();
        for (std::uint32_t zone = 0; zone < num_zones; ++zone) blocks -= counts[zone];
        std::uint32_t zone = 0;
        std::uint64_t entry = 0;
        for (std::uint32_t pair = 0; pair < num_pairs; ++pair) {
            const std::uint32_t cluster = term.wide ? pair : out_.narrow_cluster[term.first_narrow + pair];
            const std::uint32_t block = job_.cluster_first_position[cluster] / kBlockDocs;
            for (; zone < block / kZoneBlocks; ++zone) {
                blocks += counts[zone];
                entry = 0;
            }
            while (entry < counts[zone] && blocks[entry] < block % kZoneBlocks) ++entry;
            out_.pair_entry.push_back(static_cast<std::uint16_t>(entry));
        }
    }

    /// The code at each of kTopRanks in descending order; 0 where the list is shorter. By counting: sorting even the
    /// first thousand would take as long as all the rest.
    void find_top_codes(std::span<const Posting<Code>> postings) {
        Code largest = 0;
        for (const auto& posting : postings) {
            ++counts_[posting.code];
            largest = std::max(largest, posting.code);
        }
        std::size_t code = largest;
        std::uint64_t seen = counts_[code];
        for (const std::uint32_t rank : kTopRanks) {
            if (rank > postings.size()) code = 0;  // most lists are short
            while (seen < rank && code > 0) seen += counts_[--code];
            out_.term_top_code.push_back(static_cast<Code>(code));
        }
        for (const auto& posting : postings) counts_[posting.code] = 0;
    }

    const FillJob<Code, Term>& job_;
    std::uint32_t first_term_, last_term_;
    std::uint32_t num_clusters_, num_positions_;
    std::vector<TermPlace> terms_;
    std::vector<TermState> states_;
    std::vector<Posting<Code>> postings_;  // of one term after the other
    std::vector<Code> segment_codes_;      // the maxima of all pairs' segments
    std::vector<std::uint64_t> touched_;   // pairs of the cluster being filled
    std::vector<std::uint32_t> counts_ = std::vector<std::uint32_t>(std::size_t{1} << (8 * sizeof(Code)));
    TermArrays<Code> out_;
};

}  // namespace

template <class Code, class Term>
void gather_rows(const CodedDocs<Code, Term>& part, std::span<const std::uint32_t> slots, std::uint32_t first_slot,
                 std::span<const std::int64_t> out_indptr, std::span<Term> out_terms, std::span<Code> out_codes) {
    assert(slots.size() == part.num_docs() && out_terms.size() == out_codes.size() && !out_indptr.empty());
    const std::size_t num_slots = out_indptr.size() - 1;
    for (std::size_t row = 0; row < slots.size(); ++row) {
        const std::size_t slot = std::size_t{slots[row]} - first_slot;  // wraps to something large if below
        if (slot >= num_slots) continue;
        const auto from = static_cast<std::size_t>(part.indptr[row]);
        const auto count = static_cast<std::size_t>(part.indptr[row + 1]) - from;
        const auto to = static_cast<std::size_t>(out_indptr[slot] - out_indptr[0]);
        if (static_cast<std::size_t>(out_indptr[slot + 1] - out_indptr[slot]) != count) {
            throw std::invalid_argument(
                "expected slots with room for exactly their rows, got another number of entries");
        }
        std::copy_n(part.terms.data() + from, count, out_terms.data() + to);
        std::copy_n(part.codes.data() + from, count, out_codes.data() + to);
    }
}

std::vector<std::uint32_t> lay_out_clusters(std::span<const std::uint32_t> cluster_first) {
    assert(std::is_sorted(cluster_first.begin(), cluster_first.end()));
    std::vector<std::uint32_t> first_position{0};
    std::uint64_t position = 0;
    for (std::size_t cluster = 0; cluster + 1 < cluster_first.size(); ++cluster) {
        const std::uint64_t docs = cluster_first[cluster + 1] - cluster_first[cluster];
        position += (docs + kBlockDocs - 1) / kBlockDocs * kBlockDocs;
        if (position >= kNoRow) throw std::length_error("the collection is too large: 4,294,967,294 places at most");
        first_position.push_back(static_cast<std::uint32_t>(position));
    }
    return first_position;
}

template <class Code, class Term>
void count_terms(const CodedDocs<Code, Term>& docs, std::span<const std::uint32_t> cluster_first, std::uint32_t first,
                 std::uint32_t last, std::span<std::uint64_t> postings, std::span<std::uint64_t> pairs,
                 const StopFlag& stop) {
    assert(first <= last && last < cluster_first.size() && postings.size() == docs.num_terms &&
           pairs.size() == postings.size());
    std::vector<std::uint32_t> last_cluster(docs.num_terms, kNone);
    for (std::uint32_t cluster = first; cluster < last; ++cluster) {
        const auto begin = static_cast<std::size_t>(docs.indptr[cluster_first[cluster]]);
        const auto end = static_cast<std::size_t>(docs.indptr[cluster_first[cluster + 1]]);
        for (const Term term : docs.terms.subspan(begin, end - begin)) {
            if (term >= docs.num_terms) throw std::invalid_argument("a term is outside the vocabulary");
            ++postings[term];
            pairs[term] += last_cluster[term] != cluster ? 1 : 0;
            last_cluster[term] = cluster;
        }
        check(stop);
    }
}

TermPlan plan_terms(std::span<const std::uint64_t> postings, std::span<const std::uint64_t> pairs,
                    std::uint32_t num_clusters, std::uint32_t num_positions, std::uint32_t num_segments,
                    std::uint32_t head_ratio, std::uint32_t code_bytes, bool exact_segments) {
    assert(postings.size() == pairs.size());
    TermPlan plan;
    plan.term_first_pair.push_back(0);
    const std::uint64_t num_spans = std::uint64_t{tiles_of(num_positions)} * kTileSpans;
    const std::uint64_t num_zones = zones_of(num_positions);
    const std::uint64_t posting_bytes =
        code_bytes == 1 ? sizeof(Posting<std::uint8_t>) : sizeof(Posting<std::uint16_t>);
    for (std::size_t t = 0; t < postings.size(); ++t) {
        const bool wide = Index::wide(pairs[t], num_clusters);
        const std::uint64_t num_pairs = wide ? num_clusters : pairs[t];
        // The maxima of segments are made as codes before they become levels or masks.
        const std::uint64_t pair_bytes =
            (wide ? 0 : 4 + segment_mask_bytes(num_segments)) +
            code_bytes * (1 + (exact_segments && num_segments > 1 ? 2 : 1) * std::uint64_t{num_segments});
        const std::uint64_t wide_bytes = wide ? Index::segment_row_bytes(num_clusters, num_segments) : 0;
        const std::uint64_t head_bytes = num_spans * (kSpanBytes + 2) + 2 + Index::num_bases(num_spans) * 4 +
                                         level_row_bytes(num_spans * kSpanBlocks / kQuadBlocks) +
                                         postings[t] * (1 + code_bytes);
        const std::uint64_t tail_bytes = postings[t] * (3 + 2 * std::uint64_t{code_bytes}) +
                                         Index::most_groups_of(postings[t], num_zones) * 4 +
                                         num_pairs * sizeof(std::uint16_t);
        const bool head = Index::head(postings[t], num_positions, head_ratio);
        plan.term_first_pair.push_back(plan.term_first_pair.back() + num_pairs);
        plan.term_bytes.push_back(num_pairs * pair_bytes + postings[t] * posting_bytes +
                                  (head ? head_bytes : tail_bytes) + wide_bytes +
                                  (kNumLevels + kNumTopRanks) * code_bytes + 8 + num_zones * 8);
    }
    return plan;
}

template <class Code, class Term>
TermArrays<Code> fill_terms(const FillJob<Code, Term>& job, std::uint32_t first_term, std::uint32_t last_term,
                            const StopFlag& stop) {
    assert(first_term <= last_term && last_term <= job.postings.size() && job.postings.size() == job.pairs.size());
    assert(job.order.size() == job.docs.num_docs() && job.segments.size() == job.docs.num_docs());
    return TermFiller<Code, Term>(job, first_term, last_term).fill(stop);
}

#define SEGMAX_BUILDER(Code, Term)                                                                                 \
    template void gather_rows(const CodedDocs<Code, Term>&, std::span<const std::uint32_t>, std::uint32_t,         \
                              std::span<const std::int64_t>, std::span<Term>, std::span<Code>);                    \
    template void count_terms(const CodedDocs<Code, Term>&, std::span<const std::uint32_t>, std::uint32_t,         \
                              std::uint32_t, std::span<std::uint64_t>, std::span<std::uint64_t>, const StopFlag&); \
    template TermArrays<Code> fill_terms(const FillJob<Code, Term>&, std::uint32_t, std::uint32_t, const StopFlag&);

SEGMAX_BUILDER(std::uint8_t, std::uint16_t)
SEGMAX_BUILDER(std::uint8_t, std::uint32_t)
SEGMAX_BUILDER(std::uint16_t, std::uint16_t)
SEGMAX_BUILDER(std::uint16_t, std::uint32_t)
#undef SEGMAX_BUILDER

}  // namespace segmax
