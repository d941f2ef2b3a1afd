// The order of documents inside a cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "segmax/base/interrupt.hpp"

namespace segmax {

/// Documents as short dense vectors, num_dims floats each.
struct DensePoints {
    std::span<const float> values;
    std::size_t num_dims = 0;
};

/// Reorders the documents of each cluster so that similar ones are next to each other: recursive bisection down to
/// blocks of kBlockDocs. `order` lists documents, `cluster_first` is where each cluster starts in it (clusters + 1
/// entries).
void order_by_similarity(const DensePoints& points, std::span<const std::uint32_t> cluster_first,
                         std::span<std::uint32_t> order, const StopFlag& stop);

}  // namespace segmax
