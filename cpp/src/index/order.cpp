// Order inside clusters: recursive bisection until the halves are blocks.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "segmax/base/interrupt.hpp"
#include "segmax/index/builder.hpp"

namespace segmax {

namespace {

constexpr int kRefinements = 4;

template <class Code>
class Bisector {
public:
    Bisector(const CodedDocs<Code>& docs, std::span<const float> rarity)
        : docs_(docs), rarity_(rarity), direction_(docs.num_terms, 0.0F) {}

    void order(std::span<Row> rows) {
        if (rows.size() <= kBlockDocs) return;
        const std::size_t blocks = (rows.size() + kBlockDocs - 1) / kBlockDocs;
        const std::size_t half = blocks / 2 * kBlockDocs;
        split(rows, half);
        order(rows.first(half));
        order(rows.subspan(half));
    }

private:
    struct Placed {
        float value;
        Row row;
        bool operator<(const Placed& other) const {
            return value != other.value ? value < other.value : row < other.row;
        }
    };

    /// 2-means with halves of fixed size: documents are sorted along the line between the two centroids.
    void split(std::span<Row> rows, std::size_t half) {
        std::sort(rows.begin(), rows.end());
        start_from_extremes(rows);
        placed_.resize(rows.size());
        for (int round = 0; round < kRefinements; ++round) {
            for (std::size_t i = 0; i < rows.size(); ++i) placed_[i] = {project(rows[i]), rows[i]};
            std::nth_element(placed_.begin(), placed_.begin() + static_cast<std::ptrdiff_t>(half), placed_.end());
            clear_direction();
            const float low = -1.0F / static_cast<float>(half);
            const float high = 1.0F / static_cast<float>(rows.size() - half);
            for (std::size_t i = 0; i < rows.size(); ++i) {
                rows[i] = placed_[i].row;
                add(rows[i], i < half ? low : high);
            }
        }
        clear_direction();
    }

    /// One end is the document least like the mean, the other the one least like that.
    void start_from_extremes(std::span<const Row> rows) {
        for (const Row row : rows) add(row, 1.0F);
        const Row first = least_similar(rows);
        clear_direction();
        add(first, 1.0F);
        const Row second = least_similar(rows);
        clear_direction();
        add(first, -1.0F / norm(first));
        add(second, 1.0F / norm(second));
    }

    Row least_similar(std::span<const Row> rows) const {
        Row best = rows[0];
        float lowest = INFINITY;
        for (const Row row : rows) {
            const float similarity = project(row) / norm(row);
            if (similarity < lowest) {
                lowest = similarity;
                best = row;
            }
        }
        return best;
    }

    template <class Visit>
    void each_term(Row row, Visit visit) const {
        const auto begin = static_cast<std::size_t>(docs_.indptr[row]);
        const auto end = static_cast<std::size_t>(docs_.indptr[row + 1]);
        for (std::size_t i = begin; i < end; ++i) {
            visit(docs_.terms[i], static_cast<float>(docs_.codes[i]) * rarity_[docs_.terms[i]]);
        }
    }

    float norm(Row row) const {
        float sum = 1e-6F;
        each_term(row, [&](std::uint32_t, float value) { sum += value * value; });
        return std::sqrt(sum);
    }

    float project(Row row) const {
        float sum = 0;
        each_term(row, [&](std::uint32_t term, float value) { sum += value * direction_[term]; });
        return sum;
    }

    void add(Row row, float factor) {
        each_term(row, [&](std::uint32_t term, float value) {
            direction_[term] += factor * value;
            touched_.push_back(term);
        });
    }

    void clear_direction() {
        for (const std::uint32_t term : touched_) direction_[term] = 0;
        touched_.clear();
    }

    const CodedDocs<Code>& docs_;
    std::span<const float> rarity_;
    std::vector<float> direction_;
    std::vector<std::uint32_t> touched_;
    std::vector<Placed> placed_;
};

/// log(documents / document frequency): a term in every document says nothing about similarity.
template <class Code>
std::vector<float> rarity_of(const CodedDocs<Code>& docs) {
    std::vector<std::uint32_t> frequency(docs.num_terms, 0);
    for (const std::uint32_t term : docs.terms) ++frequency[term];
    std::vector<float> rarity(docs.num_terms);
    for (std::size_t t = 0; t < rarity.size(); ++t) {
        rarity[t] = std::log((1.0F + static_cast<float>(docs.num_docs())) / (1.0F + static_cast<float>(frequency[t])));
    }
    return rarity;
}

}  // namespace

template <class Code>
void order_by_similarity(const CodedDocs<Code>& docs, std::span<const std::uint32_t> cluster_first, std::span<Row> rows,
                         unsigned num_threads, const StopCheck& stop) {
    const std::vector<float> rarity = rarity_of(docs);
    std::atomic<std::size_t> next{0};
    std::atomic<bool> stopped{false};
    const std::size_t num_clusters = cluster_first.size() - 1;
    const auto work = [&](bool may_stop) {
        Bisector<Code> bisector(docs, rarity);
        for (std::size_t c = next++; c < num_clusters && !stopped; c = next++) {
            bisector.order(rows.subspan(cluster_first[c], cluster_first[c + 1] - cluster_first[c]));
            if (may_stop && stop && stop()) stopped = true;
        }
    };
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < num_threads; ++i) others.emplace_back(work, false);
    work(true);
    others.clear();
    if (stopped) throw Interrupted();
}

template void order_by_similarity(const CodedDocs<std::uint8_t>&, std::span<const std::uint32_t>, std::span<Row>,
                                  unsigned, const StopCheck&);
template void order_by_similarity(const CodedDocs<std::uint16_t>&, std::span<const std::uint32_t>, std::span<Row>,
                                  unsigned, const StopCheck&);

}  // namespace segmax
