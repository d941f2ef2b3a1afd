// The index as the search code sees it: read-only arrays, in memory or mapped, and what is derived from them on open.
//
// Every term has "pairs", one for each cluster it occurs in. A term in at least half of the clusters ("wide") has a
// pair for every cluster, so that its maxima of clusters and segments are plain rows; a narrow term lists its clusters,
// and for each the segments that have the term. Postings come in two forms. A frequent term ("head") has rows of maxima
// over all blocks and all quads, and a run of postings per span; for the others ("tail") there is an entry for every
// block they occur in. Rows hold levels: 16 values of the term, which maxima are rounded up to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "segmax/base/types.hpp"
#include "segmax/index/components.hpp"

namespace segmax {

/// The stored arrays, byte for byte what docs/format.md describes, and the counts that give them their meaning.
/// Whoever fills this in keeps the memory alive, with kSlackBytes readable after each array.
struct IndexArrays {
    /// Arrays of codes are raw bytes here: an entry takes `code_bytes` of them.
    using Code = std::byte;

    std::uint32_t num_docs = 0;
    std::uint32_t num_terms = 0;
    std::uint32_t num_segments = 0;
    std::uint32_t code_bytes = 1;
    std::uint32_t head_ratio = 8;
#define SEGMAX_SPAN(name, entry, check) std::span<const entry> name;
    SEGMAX_COMPONENTS(SEGMAX_SPAN)
#undef SEGMAX_SPAN
};

/// Arrays checked against each other, with the offsets that follow from the counts.
/// Immutable and safe to share between threads.
class Index {
public:
    /// Throws FormatError where a length, an offset or a row is impossible. What is not checked here (postings,
    /// maxima, run starts, lists of clusters) is cut to its limits at every use.
    explicit Index(const IndexArrays& arrays);

    const IndexArrays& arrays() const { return arrays_; }
    /// A number that no other index of this process has or had.
    std::uint64_t serial() const { return serial_; }
    std::uint32_t num_docs() const { return arrays_.num_docs; }
    std::uint32_t num_terms() const { return arrays_.num_terms; }
    std::uint32_t num_segments() const { return arrays_.num_segments; }
    std::uint32_t num_clusters() const { return num_clusters_; }
    std::uint32_t num_positions() const { return num_positions_; }
    std::uint32_t num_blocks() const { return num_positions_ / kBlockDocs; }
    std::uint32_t num_tiles() const { return tiles_of(num_positions_); }
    std::uint32_t num_spans() const { return num_tiles() * kTileSpans; }
    std::uint32_t num_quads() const { return num_tiles() * kTileQuads; }

    Position first_position(std::uint32_t cluster) const { return arrays_.cluster_first_position[cluster]; }
    Position end_position(std::uint32_t cluster) const { return arrays_.cluster_first_position[cluster + 1]; }
    std::uint32_t cluster_num_docs(std::uint32_t cluster) const { return arrays_.cluster_num_docs[cluster]; }
    Row row_at(Position position) const { return arrays_.position_row[position]; }
    Row cluster_min_row(std::uint32_t cluster) const { return cluster_min_row_[cluster]; }
    /// The cluster whose range holds a position.
    std::uint32_t cluster_of(Position position) const;

    std::uint64_t num_pairs(std::uint32_t term) const {
        return arrays_.term_first_pair[term + 1] - arrays_.term_first_pair[term];
    }
    std::uint64_t num_postings(std::uint32_t term) const {
        return arrays_.term_first_posting[term + 1] - arrays_.term_first_posting[term];
    }
    /// Whether a document has the term.
    bool has_term(std::uint32_t term) const { return term < num_terms() && num_postings(term) > 0; }
    bool is_wide(std::uint32_t term) const { return num_pairs(term) == num_clusters_ && num_clusters_ > 0; }
    bool has_levels(std::uint32_t term) const { return is_head(term) || is_wide(term); }
    bool is_head(std::uint32_t term) const { return head(num_postings(term), num_positions_, arrays_.head_ratio); }
    std::uint32_t num_zones() const { return zones_of(num_positions_); }
    /// Where a term's entries of every zone start, and end.
    std::span<const std::uint64_t> zone_entries(std::uint32_t term) const {
        return arrays_.term_first_entry.subspan(std::size_t{term} * num_zones(), std::size_t{num_zones()} + 1);
    }
    std::uint64_t num_entries(std::uint32_t term) const {
        return zone_entries(term).back() - zone_entries(term).front();
    }

    /// Where a term's part of an array starts that has no offsets of its own.
    struct Offsets {
        std::uint64_t narrow = 0;  ///< in narrow_cluster
        std::uint64_t head = 0;    ///< head terms before this one
        std::uint64_t wide = 0;    ///< wide terms before this one
        std::uint64_t levels = 0;  ///< terms with levels before this one
        std::uint64_t group = 0;   ///< in group_start
        std::uint64_t code = 0;    ///< in entry_code
        std::uint64_t start = 0;   ///< in pair_entry
    };
    const Offsets& offsets(std::uint32_t term) const { return offsets_[term]; }

    /// Asks for the memory that says where a term's part of the arrays is.
    void prefetch(std::uint32_t term) const {
        if (term >= num_terms()) return;
        __builtin_prefetch(&offsets_[term]);
        __builtin_prefetch(&arrays_.term_first_pair[term]);
        __builtin_prefetch(&arrays_.term_first_posting[term]);
        __builtin_prefetch(&arrays_.term_first_byte[term]);
        __builtin_prefetch(&arrays_.term_first_entry[std::size_t{term} * num_zones()]);
        __builtin_prefetch(&arrays_.term_top_code[std::size_t{term} * kNumTopRanks * arrays_.code_bytes]);
    }

    template <class Code>
    const Code* codes(std::span<const std::byte> bytes) const {
        return reinterpret_cast<const Code*>(bytes.data());
    }

    /// The largest code of a term.
    std::uint32_t largest_code(std::uint32_t term) const {
        const std::size_t at = std::size_t{term} * kNumTopRanks;
        return arrays_.code_bytes == 1 ? codes<std::uint8_t>(arrays_.term_top_code)[at]
                                       : codes<std::uint16_t>(arrays_.term_top_code)[at];
    }

    /// Bytes of a wide term's row of segment maxima. A single segment is the cluster: no row then.
    static constexpr std::uint64_t segment_row_bytes(std::uint64_t num_clusters, std::uint32_t num_segments) {
        return num_segments > 1 ? level_row_bytes(num_clusters * num_segments) : 0;
    }
    /// Entries of a head term's run_base.
    static constexpr std::uint64_t num_bases(std::uint64_t num_spans) { return num_spans / kBaseSpans + 1; }

    /// The layout rules, shared with the builder: a term in half of the clusters gets a pair for all of them,
    static constexpr bool wide(std::uint64_t clusters_with_term, std::uint64_t num_clusters) {
        return clusters_with_term * 2 >= num_clusters && clusters_with_term > 0;
    }
    /// and one with a posting per 16 * head_ratio positions is a head term.
    static constexpr bool head(std::uint64_t num_postings, std::uint64_t num_positions, std::uint64_t head_ratio) {
        return num_postings * head_ratio >= num_positions / 16 && num_postings > 0;
    }
    static constexpr std::uint64_t groups_of(std::uint64_t entries) {
        return (entries + kGroupEntries - 1) / kGroupEntries;
    }
    /// The groups of so many entries, however they spread over the zones.
    static constexpr std::uint64_t most_groups_of(std::uint64_t entries, std::uint64_t num_zones) {
        return std::min(entries, groups_of(entries) + num_zones - 1);
    }

private:
    void check_tables();
    void check_terms();
    void derive_rows();

    IndexArrays arrays_;
    std::uint64_t serial_;
    std::uint32_t num_clusters_ = 0;
    std::uint32_t num_positions_ = 0;
    std::vector<Offsets> offsets_;
    std::vector<Row> cluster_min_row_;
    std::vector<std::uint32_t> tile_first_cluster_;
};

}  // namespace segmax
