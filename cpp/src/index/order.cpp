// Order inside clusters: recursive bisection until the halves are blocks.
#include "segmax/index/order.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "segmax/base/interrupt.hpp"
#include "segmax/base/types.hpp"

namespace segmax {

namespace {

constexpr int kPowerRounds = 3;
constexpr int kRefinements = 3;

class Bisector {
public:
    Bisector(const DensePoints& points, const StopFlag& stop)
        : points_(points), stop_(stop), mean_(points.num_dims), direction_(points.num_dims), sum_(points.num_dims) {}

    void order(std::span<std::uint32_t> docs) {
        if (docs.size() <= kBlockDocs) return;
        if (stop_.load(std::memory_order_relaxed)) throw Interrupted();
        const std::size_t blocks = (docs.size() + kBlockDocs - 1) / kBlockDocs;
        const std::size_t half = blocks / 2 * kBlockDocs;
        split(docs, half);
        order(docs.first(half));
        order(docs.subspan(half));
    }

private:
    struct Placed {
        float value;
        std::uint32_t doc;
        bool operator<(const Placed& other) const {
            return value != other.value ? value < other.value : doc < other.doc;
        }
    };

    /// Sorts along the main direction, then along the line between the means of the halves, a few times.
    void split(std::span<std::uint32_t> docs, std::size_t half) {
        std::sort(docs.begin(), docs.end());
        find_main_direction(docs);
        cut(docs, half);
        for (int round = 0; round < kRefinements; ++round) {
            std::fill(direction_.begin(), direction_.end(), 0.0F);
            const float low = -1.0F / static_cast<float>(half);
            const float high = 1.0F / static_cast<float>(docs.size() - half);
            for (std::size_t i = 0; i < docs.size(); ++i) add(direction_, docs[i], i < half ? low : high);
            cut(docs, half);
        }
    }

    /// Puts the documents that lie lowest along the direction into the first half, ties by number.
    void cut(std::span<std::uint32_t> docs, std::size_t half) {
        placed_.resize(docs.size());
        for (std::size_t i = 0; i < docs.size(); ++i)
            placed_[i] = {product(point(docs[i]), direction_.data()), docs[i]};
        std::nth_element(placed_.begin(), placed_.begin() + static_cast<std::ptrdiff_t>(half), placed_.end());
        for (std::size_t i = 0; i < docs.size(); ++i) docs[i] = placed_[i].doc;
    }

    /// Power iteration on the covariance, from a direction that favors no document: started from two documents, it
    /// would leave all that resemble neither in a tie.
    void find_main_direction(std::span<const std::uint32_t> docs) {
        std::fill(mean_.begin(), mean_.end(), 0.0F);
        for (const std::uint32_t doc : docs) add(mean_, doc, 1.0F / static_cast<float>(docs.size()));
        std::minstd_rand random(1);
        for (float& value : direction_) value = static_cast<float>(random() % 2048) - 1023.5F;
        for (int round = 0; round < kPowerRounds; ++round) {
            const float middle = product(mean_.data(), direction_.data());
            std::fill(sum_.begin(), sum_.end(), 0.0F);
            for (const std::uint32_t doc : docs) add(sum_, doc, product(point(doc), direction_.data()) - middle);
            const float length = std::sqrt(product(sum_.data(), sum_.data()));
            if (!(length > 0)) return;  // all alike
            for (std::size_t i = 0; i < direction_.size(); ++i) direction_[i] = sum_[i] / length;
        }
    }

    const float* point(std::uint32_t doc) const { return points_.values.data() + doc * points_.num_dims; }

    /// Four sums side by side: the order of additions is fixed, and the compiler can use vectors.
    float product(const float* a, const float* b) const {
        float sums[4] = {0, 0, 0, 0};
        std::size_t i = 0;
        for (; i + 4 <= points_.num_dims; i += 4) {
            for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
        }
        for (; i < points_.num_dims; ++i) sums[0] += a[i] * b[i];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    void add(std::vector<float>& to, std::uint32_t doc, float factor) const {
        const float* from = point(doc);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
    }

    const DensePoints& points_;
    const StopFlag& stop_;
    std::vector<float> mean_, direction_, sum_;
    std::vector<Placed> placed_;
};

}  // namespace

void order_by_similarity(const DensePoints& points, std::span<const std::uint32_t> cluster_first,
                         std::span<std::uint32_t> order, const StopFlag& stop) {
    assert(points.values.size() == order.size() * points.num_dims);
    assert(!cluster_first.empty() && cluster_first.back() == order.size());
    Bisector bisector(points, stop);
    for (std::size_t c = 0; c + 1 < cluster_first.size(); ++c) {
        bisector.order(order.subspan(cluster_first[c], cluster_first[c + 1] - cluster_first[c]));
    }
}

}  // namespace segmax
