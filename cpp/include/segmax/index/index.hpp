// The index as the search code sees it: read-only arrays, in memory or mapped, and what is derived from them on open.
//
// Every term has "pairs", one for each chunk of each cluster it occurs in; a pair holds the cluster's maxima and where
// its run of postings starts. A term in at least half of the chunks ("wide") has a pair for every chunk, so that
// its maxima are plain rows; a narrow term lists its chunks. A frequent term ("head") also has a row of block maxima
// over all blocks; for the others the postings serve.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "segmax/base/types.hpp"

namespace segmax {

/// The stored arrays, byte for byte what docs/format.md describes. Code-typed arrays are raw bytes here:
/// their width is `code_bytes`. Whoever fills this in keeps the memory alive, with kSlackBytes readable after each.
struct IndexArrays {
    std::uint32_t num_docs = 0;
    std::uint32_t num_terms = 0;
    std::uint32_t num_segments = 0;
    std::uint32_t code_bytes = 1;
    std::uint32_t head_ratio = 4;
    std::span<const std::uint32_t> cluster_first_chunk;
    std::span<const std::uint32_t> chunk_first_position;
    std::span<const std::uint32_t> chunk_num_docs;
    std::span<const std::uint32_t> position_row;
    std::span<const std::uint64_t> term_first_pair;
    std::span<const std::uint64_t> term_first_posting;
    std::span<const double> term_scale;
    std::span<const std::byte> term_seed_code;
    std::span<const std::uint32_t> narrow_chunk;
    std::span<const std::uint32_t> run_start;
    std::span<const std::byte> cluster_max;
    std::span<const std::byte> segment_max;
    std::span<const std::byte> segment_sum;
    std::span<const std::byte> block_max;
    std::span<const std::uint16_t> posting_id;
    std::span<const std::byte> posting_code;
};

/// Arrays checked against each other, with the offsets that follow from the counts.
/// Immutable and safe to share between threads.
class Index {
public:
    /// Throws FormatError where a length, an offset or a row is impossible. What is not checked here (posting ids,
    /// codes, maxima, run starts, lists of chunks) is cut to its limits at every use.
    explicit Index(const IndexArrays& arrays);

    const IndexArrays& arrays() const { return arrays_; }
    /// A number that no other index of this process has or had.
    std::uint64_t serial() const { return serial_; }
    std::uint32_t num_docs() const { return arrays_.num_docs; }
    std::uint32_t num_terms() const { return arrays_.num_terms; }
    std::uint32_t num_segments() const { return arrays_.num_segments; }
    std::uint32_t num_clusters() const { return num_clusters_; }
    std::uint32_t num_chunks() const { return num_chunks_; }
    std::uint32_t num_positions() const { return num_positions_; }
    std::uint32_t num_blocks() const { return num_positions_ / kBlockDocs; }

    std::uint32_t first_chunk(std::uint32_t cluster) const { return arrays_.cluster_first_chunk[cluster]; }
    std::uint32_t end_chunk(std::uint32_t cluster) const { return arrays_.cluster_first_chunk[cluster + 1]; }
    Position chunk_position(std::uint32_t chunk) const { return arrays_.chunk_first_position[chunk]; }
    std::uint32_t chunk_num_docs(std::uint32_t chunk) const { return arrays_.chunk_num_docs[chunk]; }
    Row row_at(Position position) const { return arrays_.position_row[position]; }
    Row block_min_row(std::uint32_t block) const { return block_min_row_[block]; }
    Row cluster_min_row(std::uint32_t cluster) const { return cluster_min_row_[cluster]; }
    /// The chunk whose range holds a position.
    std::uint32_t chunk_of(Position position) const;
    std::uint32_t cluster_of_chunk(std::uint32_t chunk) const { return chunk_cluster_[chunk]; }

    /// The first chunk of every window of kWindowDocs positions, and the number of chunks at the end.
    std::span<const std::uint32_t> window_first_chunk() const { return window_first_chunk_; }

    std::uint64_t num_pairs(std::uint32_t term) const {
        return arrays_.term_first_pair[term + 1] - arrays_.term_first_pair[term];
    }
    std::uint64_t num_postings(std::uint32_t term) const {
        return arrays_.term_first_posting[term + 1] - arrays_.term_first_posting[term];
    }
    bool is_wide(std::uint32_t term) const { return num_pairs(term) == num_chunks_; }
    bool is_head(std::uint32_t term) const { return head(num_postings(term), num_blocks(), arrays_.head_ratio); }
    /// First entry of a narrow term in narrow_chunk.
    std::uint64_t narrow_offset(std::uint32_t term) const { return narrow_offset_[term]; }
    std::uint64_t block_max_offset(std::uint32_t term) const { return block_max_offset_[term]; }

    template <class Code>
    const Code* codes(std::span<const std::byte> bytes) const {
        return reinterpret_cast<const Code*>(bytes.data());
    }

    /// The largest code of a term.
    std::uint32_t largest_code(std::uint32_t term) const {
        const std::size_t at = std::size_t{term} * kNumSeedRanks;
        return arrays_.code_bytes == 1 ? codes<std::uint8_t>(arrays_.term_seed_code)[at]
                                       : codes<std::uint16_t>(arrays_.term_seed_code)[at];
    }

    /// Bytes per entry of segment_sum: two while a sum of segment maxima fits them.
    static constexpr std::uint32_t sum_bytes(std::uint32_t num_segments, std::uint32_t code_bytes) {
        return code_bytes == 1 && num_segments <= 257 ? 2 : 4;
    }
    /// The exact sum of a pair's segment maxima.
    std::uint32_t segment_sum(std::uint64_t pair) const {
        const std::byte* bytes = arrays_.segment_sum.data();
        if (sum_bytes_ == 2) return reinterpret_cast<const std::uint16_t*>(bytes)[pair];
        return reinterpret_cast<const std::uint32_t*>(bytes)[pair];
    }

    /// The layout rules, shared with the builder: a term in half of the chunks gets a pair for all of them,
    static constexpr bool wide(std::uint64_t chunks_with_term, std::uint64_t num_chunks) {
        return chunks_with_term * 2 >= num_chunks && chunks_with_term > 0;
    }
    /// and a row over all blocks costs at most `head_ratio` codes per posting.
    static constexpr bool head(std::uint64_t num_postings, std::uint64_t num_blocks, std::uint64_t head_ratio) {
        return num_postings * head_ratio >= num_blocks && num_postings > 0;
    }

private:
    void check_tables();
    void check_terms();
    void derive_rows();

    IndexArrays arrays_;
    std::uint64_t serial_;
    std::uint32_t num_clusters_ = 0;
    std::uint32_t num_chunks_ = 0;
    std::uint32_t num_positions_ = 0;
    std::uint32_t sum_bytes_ = 2;
    std::vector<std::uint64_t> narrow_offset_;
    std::vector<std::uint64_t> block_max_offset_;
    std::vector<std::uint32_t> chunk_cluster_;
    std::vector<std::uint32_t> window_first_chunk_;
    std::vector<Row> block_min_row_;
    std::vector<Row> cluster_min_row_;
};

}  // namespace segmax
