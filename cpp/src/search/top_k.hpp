// The k best results so far: score descending, then input row ascending.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "segmax/base/types.hpp"

namespace segmax {

/// Keys pack score and row into one integer that sorts like the ranking. `exact`: a bounded heap, θ always that of the
/// results so far. Otherwise results are collected and cut to the best k now and then: a push costs next to nothing,
/// and θ lags behind.
template <class Acc>
class TopK {
public:
    using Key = std::conditional_t<std::is_same_v<Acc, std::uint32_t>, std::uint64_t, unsigned __int128>;

    /// Starts over. k may be 0 only where there are no documents to push.
    void reset(std::size_t k, bool exact = true) {
        k_ = k;
        exact_ = exact;
        heap_.clear();
        threshold_ = 0;
        threshold_row_ = kNoRow;
        has_floor_ = false;
    }

    /// Starts from k results that were found elsewhere, of which this is the last: only what comes before it enters.
    void set_floor(Acc score, Row row) {
        threshold_ = score;
        threshold_row_ = row;
        has_floor_ = true;
    }

    /// Whether there are k results, here or elsewhere, so that θ is one of theirs.
    bool full() const { return has_floor_ || heap_.size() >= k_; }
    std::size_t size() const { return std::min(heap_.size(), k_); }
    std::size_t capacity() const { return k_; }
    /// θ: the k-th score, or that of the floor; 0 until there is one.
    Acc threshold() const { return threshold_; }
    /// r: the row of the k-th result; kNoRow until there are k results.
    Row threshold_row() const { return threshold_row_; }

    /// Whether a document with this score and row would enter. A score of 0 never does.
    bool admits(Acc score, Row row) const {
        return score > threshold_ || (score == threshold_ && score > 0 && row < threshold_row_);
    }

    /// Adds a document that admits() let through.
    void push(Acc score, Row row) {
        assert(k_ > 0 && admits(score, row));
        const Key key = make_key(score, row);
        if (!exact_) {
            heap_.push_back(key);
            if (heap_.size() == k_ || heap_.size() == 2 * k_) cut();
            return;
        }
        if (heap_.size() < k_) {
            heap_.push_back(key);
            std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        } else {
            replace_lowest(key);
        }
        if (heap_.size() >= k_) {
            threshold_ = score_of(heap_.front());
            threshold_row_ = row_of(heap_.front());
        }
    }

    /// Brings θ up to date where it may have fallen behind by much.
    void settle() {
        if (!exact_ && heap_.size() > k_ + k_ / 8) cut();
    }

    /// Writes the results best first; returns how many.
    template <class Visit>
    std::size_t drain(Visit visit) {
        if (heap_.size() > k_) cut();
        std::sort(heap_.begin(), heap_.end(), std::greater<>());
        for (std::size_t i = 0; i < heap_.size(); ++i) visit(i, score_of(heap_[i]), row_of(heap_[i]));
        return heap_.size();
    }

private:
    static Key make_key(Acc score, Row row) { return (Key{score} << 32) | (kNoRow - row); }
    static Acc score_of(Key key) { return static_cast<Acc>(key >> 32); }
    static Row row_of(Key key) { return kNoRow - static_cast<Row>(key & kNoRow); }

    /// Keeps the best k, the k-th at the end.
    void cut() {
        const auto last = heap_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
        std::nth_element(heap_.begin(), last, heap_.end(), std::greater<>());
        heap_.resize(k_);
        threshold_ = score_of(heap_.back());
        threshold_row_ = row_of(heap_.back());
    }

    /// One sift-down instead of a pop and a push.
    void replace_lowest(Key key) {
        const std::size_t size = heap_.size();
        std::size_t hole = 0;
        for (;;) {
            std::size_t child = 2 * hole + 1;
            if (child >= size) break;
            child += child + 1 < size && heap_[child + 1] < heap_[child] ? 1 : 0;
            if (heap_[child] >= key) break;
            heap_[hole] = heap_[child];
            hole = child;
        }
        heap_[hole] = key;
    }

    std::size_t k_ = 0;
    bool exact_ = true;
    std::vector<Key> heap_;
    Acc threshold_ = 0;
    Row threshold_row_ = kNoRow;
    bool has_floor_ = false;
};

}  // namespace segmax
