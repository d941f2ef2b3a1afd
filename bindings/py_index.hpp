// The index as Python holds it: the core's view, and the numpy arrays that keep the memory alive.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "segmax/index/documents.hpp"
#include "segmax/index/index.hpp"
#include "segmax/search/lattice.hpp"
#include "segmax/search/mask.hpp"

namespace segmax::bindings {

/// A lattice as Python holds it.
struct PyLattice {
    std::shared_ptr<const Lattice> lattice;
};

/// A mask as Python holds it.
struct PyMask {
    std::shared_ptr<const Mask> mask;
};

/// Copies share everything but the lattice that queries are prepared by.
class PyIndex {
public:
    PyIndex(const IndexArrays& arrays, nanobind::object owner)
        : opened_(std::make_shared<Opened>(arrays, std::move(owner))),
          lattice_(std::make_shared<const Lattice>(opened_->index)) {}

    const Index& get() const { return opened_->index; }
    const Lattice& lattice() const { return *lattice_; }

    /// The same index with queries prepared by a lattice that it shares with others. Throws FormatError where it has a
    /// code that the lattice rules out.
    PyIndex with_lattice(std::shared_ptr<const Lattice> lattice) const {
        lattice->check(get());
        PyIndex other = *this;
        other.lattice_ = std::move(lattice);
        return other;
    }

    /// The position of a row, from a table that is made on first use. Throws std::out_of_range.
    Position position_of(std::int64_t row) const {
        if (row < 0 || row >= get().num_docs()) throw std::out_of_range("a row is outside the collection");
        return positions()[static_cast<std::size_t>(row)];
    }

    std::vector<Position> positions_of(std::span<const std::int64_t> rows) const {
        std::vector<Position> positions;
        positions.reserve(rows.size());
        for (const std::int64_t row : rows) positions.push_back(position_of(row));
        return positions;
    }

    /// The position of every row.
    std::span<const Position> positions() const {
        std::call_once(opened_->once, [this] { opened_->positions = positions_of_rows(get()); });
        return opened_->positions;
    }

private:
    struct Opened {
        Opened(const IndexArrays& arrays, nanobind::object kept) : owner(std::move(kept)), index(arrays) {}

        nanobind::object owner;
        Index index;
        std::once_flag once;
        std::vector<Position> positions;
    };

    std::shared_ptr<Opened> opened_;
    std::shared_ptr<const Lattice> lattice_;
};

}  // namespace segmax::bindings
