// MaxScore (Turtle and Flood 1995), document at a time, over the whole collection or one cluster.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/context.hpp"

namespace segmax {

template <class Code, class Acc>
struct MaxScoreCursor {
    std::uint32_t at = 0;  ///< into the documents of the piece
    std::uint32_t end = 0;
    std::uint32_t next = 0;  ///< offset of the next document from the start of the piece
    std::uint32_t weight = 0;
    Acc bound = 0;  ///< weight times the term's largest code in the range

    static constexpr std::uint32_t kEnd = 0xFFFFFFFFU;

    void settle(const std::vector<std::uint16_t>& offsets) { next = at < end ? offsets[at] : kEnd; }
};

/// Scores the documents of a range of positions whose bounds let them enter. `factor` is 1 for θ itself, or the
/// over-estimation η of the document level; it judges bounds, never a score. Lists are unpacked piece by piece.
template <class Code, class Acc>
class MaxScoreRange {
public:
    MaxScoreRange(Context<Code, Acc>& context, double factor) : context_(context), factor_(factor) {}

    /// `bound_of(term)` is the most that a term can add in the range; terms with 0 are left out.
    template <class BoundOf>
    void run(Position first, Position end, BoundOf bound_of) {
        for (std::uint64_t piece = first; piece < end; piece += kPieceDocs) {
            const auto stop = static_cast<Position>(std::min<std::uint64_t>(end, piece + kPieceDocs));
            run_piece(static_cast<Position>(piece), stop, bound_of);
        }
    }

private:
    static constexpr std::uint32_t kPieceDocs = 65536;

    template <class BoundOf>
    void run_piece(Position first, Position end, BoundOf bound_of) {
        cursors_.clear();
        offsets_.clear();
        codes_.clear();
        for (const auto& term : context_.terms()) {
            const Acc bound = bound_of(term);
            if (bound > 0) unpack(term, first, end, bound);
        }
        for (auto& cursor : cursors_) cursor.settle(offsets_);
        std::sort(cursors_.begin(), cursors_.end(), [](const auto& a, const auto& b) { return a.bound < b.bound; });
        prefix_.resize(cursors_.size());
        Acc sum = 0;
        for (std::size_t i = 0; i < cursors_.size(); ++i) prefix_[i] = sum += cursors_[i].bound;
        essential_ = 0;
        num_read_ = 0;
        update_gate();
        for (std::uint32_t doc = next_essential(); doc < end - first; doc = upcoming_) score(first + doc, doc);
        context_.stats().postings_read += num_read_;
    }

    void unpack(const TermView<Code>& term, Position first, Position end, Acc bound) {
        const auto begin = static_cast<std::uint32_t>(offsets_.size());
        term.each_posting(first, end, [&](Position position, Code code) {
            offsets_.push_back(static_cast<std::uint16_t>(position - first));
            codes_.push_back(code);
        });
        const auto size = static_cast<std::uint32_t>(offsets_.size());
        if (size > begin) cursors_.push_back({begin, size, 0, term.weight, bound});
    }

    void update_gate() {
        gate_ = Gate<Acc>::of(context_.top(), factor_, context_.threshold_estimate);
        // Lists whose bounds together stay below the gate cannot lift a document into the results by themselves.
        while (essential_ < cursors_.size() && prefix_[essential_] < gate_.least) ++essential_;
    }

    std::uint32_t next_essential() const {
        std::uint32_t doc = MaxScoreCursor<Code, Acc>::kEnd;
        for (std::size_t i = essential_; i < cursors_.size(); ++i) doc = std::min(doc, cursors_[i].next);
        return doc;
    }

    /// Scores one document, or gives it up on the way; leaves the next one in upcoming_.
    void score(Position position, std::uint32_t doc) {
        Acc sum = 0;
        std::uint32_t upcoming = MaxScoreCursor<Code, Acc>::kEnd;
        for (std::size_t i = essential_; i < cursors_.size(); ++i) {
            auto& cursor = cursors_[i];
            if (cursor.next == doc) {
                sum += static_cast<Acc>(cursor.weight) * codes_[cursor.at++];
                cursor.settle(offsets_);
                ++num_read_;
            }
            upcoming = std::min(upcoming, cursor.next);
        }
        upcoming_ = upcoming;
        for (std::size_t i = essential_; i-- > 0;) {
            if (is_hopeless(sum + prefix_[i], position)) return abandon(position, sum + prefix_[i]);
            auto& cursor = cursors_[i];
            skip_to(cursor, doc);
            if (cursor.next == doc) {
                sum += static_cast<Acc>(cursor.weight) * codes_[cursor.at];
                ++num_read_;
            }
        }
        ++context_.stats().docs_scored;
        // The gate is for bounds. A score is compared with θ itself, whatever the factor, and whoever watches.
        if (sum < context_.top().threshold() && position != context_.params.watch) return;
        if (context_.offer(sum, position) && context_.top().full()) {
            update_gate();
            upcoming_ = next_essential();
        }
    }

    /// Rows are looked up only where a tie makes them matter: most documents fail by their bound alone.
    bool is_hopeless(Acc bound, Position position) const {
        return bound < gate_.least ||
               (bound == gate_.tied_at && !gate_.lets_in(bound, context_.index.row_at(position)));
    }

    void abandon(Position position, Acc bound) {
        if (position == context_.params.watch) {
            context_.result.watched = {Fate::below_bound, bound, context_.top().threshold(), gate_.least};
        }
    }

    /// Gallops, then halves: completions jump far in long lists and a step or two in short ones.
    void skip_to(MaxScoreCursor<Code, Acc>& cursor, std::uint32_t doc) const {
        if (cursor.next >= doc) return;
        const auto below = [&](std::uint32_t i) { return offsets_[i] < doc; };
        std::uint32_t low = cursor.at + 1;
        std::uint32_t step = 1;
        while (low + step <= cursor.end && below(low + step - 1)) {
            low += step;
            step *= 2;
        }
        std::uint32_t high = std::min(low + step - 1, cursor.end);
        while (low < high) {
            const std::uint32_t middle = low + (high - low) / 2;
            if (below(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        cursor.at = low;
        cursor.settle(offsets_);
    }

    Context<Code, Acc>& context_;
    double factor_;
    std::vector<MaxScoreCursor<Code, Acc>> cursors_;
    std::vector<std::uint16_t> offsets_;  // of one cursor after the other
    std::vector<Code> codes_;
    std::vector<Acc> prefix_;
    std::size_t essential_ = 0;
    std::uint32_t upcoming_ = 0;
    std::uint64_t num_read_ = 0;
    Gate<Acc> gate_;
};

/// MaxScore without clusters: the whole collection with the terms' global maxima.
template <class Code, class Acc>
void search_maxscore(Context<Code, Acc>& context) {
    const Index& index = context.index;
    MaxScoreRange<Code, Acc> range(context, 1.0);
    constexpr std::uint64_t kWindow = 1 << 20;  // between two looks whether to stop
    for (std::uint64_t first = 0; first < index.num_positions(); first += kWindow) {
        const auto end = static_cast<Position>(std::min<std::uint64_t>(index.num_positions(), first + kWindow));
        range.run(static_cast<Position>(first), end,
                  [](const TermView<Code>& term) { return static_cast<Acc>(term.most()); });
        context.check_stop();
    }
    context.stats().clusters_visited = index.num_clusters();
}

}  // namespace segmax
