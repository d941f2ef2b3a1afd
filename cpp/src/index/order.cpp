// Order inside clusters: recursive bisection until the halves are blocks.
#include <algorithm>
#include <cmath>

#include "segmax/base/interrupt.hpp"
#include "segmax/index/builder.hpp"

namespace segmax {

namespace {

using Slot = std::uint32_t;

constexpr int kRefinements = 4;

template <class Code, class Term>
class Bisector {
public:
    Bisector(const CodedDocs<Code, Term>& docs, std::span<const float> term_weight, const StopFlag& stop)
        : docs_(docs), term_weight_(term_weight), stop_(stop), direction_(docs.num_terms, 0.0F) {}

    void order(std::span<Slot> slots) {
        if (slots.size() <= kBlockDocs) return;
        if (stop_.load(std::memory_order_relaxed)) throw Interrupted();
        const std::size_t blocks = (slots.size() + kBlockDocs - 1) / kBlockDocs;
        const std::size_t half = blocks / 2 * kBlockDocs;
        split(slots, half);
        order(slots.first(half));
        order(slots.subspan(half));
    }

private:
    struct Placed {
        float value;
        Slot slot;
        bool operator<(const Placed& other) const {
            return value != other.value ? value < other.value : slot < other.slot;
        }
    };

    /// 2-means with halves of fixed size: documents are sorted along the line between the two centroids.
    void split(std::span<Slot> slots, std::size_t half) {
        std::sort(slots.begin(), slots.end());
        start_from_extremes(slots);
        placed_.resize(slots.size());
        for (int round = 0; round < kRefinements; ++round) {
            for (std::size_t i = 0; i < slots.size(); ++i) placed_[i] = {project(slots[i]), slots[i]};
            std::nth_element(placed_.begin(), placed_.begin() + static_cast<std::ptrdiff_t>(half), placed_.end());
            clear_direction();
            const float low = -1.0F / static_cast<float>(half);
            const float high = 1.0F / static_cast<float>(slots.size() - half);
            for (std::size_t i = 0; i < slots.size(); ++i) {
                slots[i] = placed_[i].slot;
                add(slots[i], i < half ? low : high);
            }
        }
        clear_direction();
    }

    /// One end is the document least like the mean, the other the one least like that.
    void start_from_extremes(std::span<const Slot> slots) {
        for (const Slot slot : slots) add(slot, 1.0F);
        const Slot first = least_similar(slots);
        clear_direction();
        add(first, 1.0F);
        const Slot second = least_similar(slots);
        clear_direction();
        add(first, -1.0F / norm(first));
        add(second, 1.0F / norm(second));
    }

    Slot least_similar(std::span<const Slot> slots) const {
        Slot best = slots[0];
        float lowest = INFINITY;
        for (const Slot slot : slots) {
            const float similarity = project(slot) / norm(slot);
            if (similarity < lowest) {
                lowest = similarity;
                best = slot;
            }
        }
        return best;
    }

    template <class Visit>
    void each_term(Slot slot, Visit visit) const {
        const auto begin = static_cast<std::size_t>(docs_.indptr[slot]);
        const auto end = static_cast<std::size_t>(docs_.indptr[slot + 1]);
        for (std::size_t i = begin; i < end; ++i) {
            visit(docs_.terms[i], static_cast<float>(docs_.codes[i]) * term_weight_[docs_.terms[i]]);
        }
    }

    float norm(Slot slot) const {
        float sum = 1e-6F;
        each_term(slot, [&](std::uint32_t, float value) { sum += value * value; });
        return std::sqrt(sum);
    }

    float project(Slot slot) const {
        float sum = 0;
        each_term(slot, [&](std::uint32_t term, float value) { sum += value * direction_[term]; });
        return sum;
    }

    void add(Slot slot, float factor) {
        each_term(slot, [&](std::uint32_t term, float value) {
            if (direction_[term] == 0) touched_.push_back(term);
            direction_[term] += factor * value;
        });
    }

    void clear_direction() {
        for (const std::uint32_t term : touched_) direction_[term] = 0;
        touched_.clear();
    }

    const CodedDocs<Code, Term>& docs_;
    std::span<const float> term_weight_;
    const StopFlag& stop_;
    std::vector<float> direction_;
    std::vector<std::uint32_t> touched_;
    std::vector<Placed> placed_;
};

}  // namespace

template <class Code, class Term>
void order_by_similarity(const CodedDocs<Code, Term>& docs, std::span<const float> term_weight,
                         std::span<const std::uint32_t> cluster_first, std::span<std::uint32_t> order,
                         const StopFlag& stop) {
    Bisector<Code, Term> bisector(docs, term_weight, stop);
    for (std::size_t c = 0; c + 1 < cluster_first.size(); ++c) {
        bisector.order(order.subspan(cluster_first[c], cluster_first[c + 1] - cluster_first[c]));
    }
}

#define SEGMAX_ORDER(Code, Term)                                                            \
    template void order_by_similarity(const CodedDocs<Code, Term>&, std::span<const float>, \
                                      std::span<const std::uint32_t>, std::span<std::uint32_t>, const StopFlag&);

SEGMAX_ORDER(std::uint8_t, std::uint16_t)
SEGMAX_ORDER(std::uint8_t, std::uint32_t)
SEGMAX_ORDER(std::uint16_t, std::uint16_t)
SEGMAX_ORDER(std::uint16_t, std::uint32_t)
#undef SEGMAX_ORDER

}  // namespace segmax
