// From rows of codes and labels to the arrays of an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "segmax/base/types.hpp"
#include "segmax/index/index.hpp"

namespace segmax {

/// Documents as CSR: rows with strictly ascending terms and positive codes.
template <class Code>
struct CodedDocs {
    std::span<const std::int64_t> indptr;
    std::span<const std::uint32_t> terms;
    std::span<const Code> codes;
    std::uint32_t num_terms = 0;

    std::uint32_t num_docs() const { return static_cast<std::uint32_t>(indptr.size() - 1); }
};

/// Called now and then during long work; returns true to give up, and the work then throws Interrupted.
using StopCheck = std::function<bool()>;

/// The rows of every cluster in an order that puts similar documents next to each other: recursive
/// bisection by 2-means over the sparse vectors, rare terms weighing more, down to blocks of kBlockDocs.
/// `rows` lists all rows grouped by cluster, `cluster_first` where each group starts (clusters + 1 entries).
template <class Code>
void order_by_similarity(const CodedDocs<Code>& docs, std::span<const std::uint32_t> cluster_first, std::span<Row> rows,
                         unsigned num_threads, const StopCheck& stop);

/// A vector whose last kSlackBytes bytes stay readable and zero; `view` is the content without them.
template <class T>
class PaddedVector {
public:
    void assign(std::size_t size) {
        size_ = size;
        data_.assign(size + (kSlackBytes + sizeof(T) - 1) / sizeof(T), T{});
    }
    T& operator[](std::size_t i) { return data_[i]; }
    T* data() { return data_.data(); }
    std::size_t size() const { return size_; }
    std::span<const T> view() const { return {data_.data(), size_}; }

private:
    std::vector<T> data_;
    std::size_t size_ = 0;
};

/// The arrays of a new index, owned. The names are those of IndexArrays.
template <class Code>
struct BuiltArrays {
    PaddedVector<std::uint32_t> cluster_first_chunk, chunk_first_position, chunk_num_docs, position_row;
    PaddedVector<std::uint64_t> term_first_pair, term_first_posting;
    PaddedVector<Code> term_seed_code;
    PaddedVector<std::uint32_t> narrow_chunk, run_start;
    PaddedVector<Code> cluster_max, segment_max;
    PaddedVector<std::byte> segment_sum;  // entries of Index::sum_bytes
    PaddedVector<Code> block_max;
    PaddedVector<std::uint16_t> posting_id;
    PaddedVector<Code> posting_code;
};

/// Builds all arrays but term_scale. `rows` and `cluster_first` as above, in final order; `segments` holds a label
/// below `num_segments` per row.
template <class Code>
BuiltArrays<Code> build_arrays(const CodedDocs<Code>& docs, std::span<const std::uint32_t> cluster_first,
                               std::span<const Row> rows, std::span<const std::uint32_t> segments,
                               std::uint32_t num_segments, const StopCheck& stop);

}  // namespace segmax
