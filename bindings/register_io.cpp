// Foreign files: lines of JSON and CIFF, parsed and written in pieces.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "checks.hpp"
#include "registers.hpp"
#include "segmax/io/ciff.hpp"
#include "segmax/io/errors.hpp"
#include "segmax/io/json_texts.hpp"
#include "segmax/io/json_vectors.hpp"
#include "segmax/io/text.hpp"

namespace segmax::bindings {

namespace {

/// The bytes of any object that has some, for as long as this lives.
class Bytes {
public:
    explicit Bytes(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    ~Bytes() { PyBuffer_Release(&buffer_); }

    std::string_view view() const {
        return {static_cast<const char*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
    }

private:
    Py_buffer buffer_;
};

/// A Python string of UTF-8 that was checked.
nb::object text_object(std::string_view text) {
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
}

/// The UTF-8 form of a Python string, which keeps it; raises UnicodeEncodeError for half surrogate pairs.
std::string_view utf8_of(nb::handle text) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (data == nullptr) throw nb::python_error();
    return {data, static_cast<std::size_t>(size)};
}

nb::bytes bytes_object(const std::string& text) {
    return nb::bytes(text.data(), text.size());
}

template <class T>
using Returned = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using Strings = nb::typed<nb::list, nb::str>;
using Rows = nb::typed<nb::tuple, Returned<std::int64_t>, Returned<std::uint32_t>, Returned<double>>;
using NamedRows = nb::typed<nb::tuple, Strings, Returned<std::int64_t>, Returned<std::uint32_t>, Returned<double>>;
using Blocks = nb::typed<nb::list, nb::typed<nb::tuple, nb::int_, nb::bytes>>;

template <class Texts>
Strings strings(const Texts& texts, std::size_t first) {
    nb::list list;
    for (std::size_t i = first; i < texts.size(); ++i) list.append(text_object(texts[i]));
    return Strings(std::move(list));
}

// --- lines of JSON ---

void parse_lines(JsonVectorParser& parser, nb::handle text) {
    const Bytes bytes(text);
    const nb::gil_scoped_release release;
    parser.parse(bytes.view());
}

NamedRows take_rows(JsonVectorParser& parser) {
    VectorRows rows = parser.take();
    Strings ids = strings(rows.ids, 0);
    return NamedRows(nb::make_tuple(ids, owned(std::move(rows.indptr)), owned(std::move(rows.terms)),
                                    owned(std::move(rows.weights))));
}

nb::bytes format_lines(const JsonVectorFormatter& formatter, const Strings& ids, const Array<std::int64_t>& indptr,
                       const Array<std::uint32_t>& terms, const Array<double>& weights, bool numbers) {
    const auto starts = view(indptr);
    if (starts.size() != ids.size() + 1 || starts[0] != 0 || terms.size() != weights.size() ||
        static_cast<std::size_t>(starts.back()) != terms.size()) {
        throw std::invalid_argument("expected rows that fit together");
    }
    std::vector<std::string_view> names;
    names.reserve(ids.size());
    for (const nb::handle id : ids) names.push_back(utf8_of(id));
    std::string out;
    {
        const nb::gil_scoped_release release;
        for (const std::uint32_t term : view(terms)) {
            if (term >= formatter.num_terms()) throw std::invalid_argument("expected terms that were added");
        }
        for (const double weight : view(weights)) {
            if (!std::isfinite(weight)) throw InputError("expected finite weights, got " + std::to_string(weight));
        }
        for (std::size_t row = 0; row < names.size(); ++row) {
            if (starts[row] > starts[row + 1]) throw std::invalid_argument("expected an indptr that ascends");
            const auto first = static_cast<std::size_t>(starts[row]);
            const auto count = static_cast<std::size_t>(starts[row + 1]) - first;
            formatter.append(names[row], numbers, view(terms).subspan(first, count),
                             view(weights).subspan(first, count), out);
        }
    }
    return bytes_object(out);
}

nb::object packed_texts(nb::handle lines) {
    const Bytes bytes(lines);
    std::optional<PackedTexts> found;
    {
        const nb::gil_scoped_release release;
        found = read_json_texts(bytes.view());
    }
    if (!found) return nb::none();
    return nb::make_tuple(strings(found->ids, 0), owned(std::move(found->lengths)), owned(std::move(found->content)));
}

// --- CIFF ---

void feed(CiffParser& parser, nb::handle data) {
    const Bytes bytes(data);
    const nb::gil_scoped_release release;
    parser.feed(bytes.view());
}

Blocks take_blocks(CiffParser& parser) {
    nb::list list;
    for (const CiffBlock& block : parser.take_blocks()) {
        list.append(nb::make_tuple(block.bucket, bytes_object(block.bytes)));
    }
    return Blocks(std::move(list));
}

Strings doc_ids(const CiffParser& parser, std::uint64_t first, std::uint64_t last) {
    if (!parser.is_done() || last > parser.header().num_docs) throw std::out_of_range("there are no such documents");
    nb::list list;
    for (std::uint64_t row = first; row < last; ++row) list.append(text_object(parser.doc_id(row)));
    return Strings(std::move(list));
}

Rows read_bucket(nb::handle data, std::uint64_t first_doc, std::uint64_t num_docs) {
    const Bytes bytes(data);
    VectorRows rows;
    {
        const nb::gil_scoped_release release;
        rows = read_ciff_bucket(bytes.view(), first_doc, num_docs);
    }
    return Rows(
        nb::make_tuple(owned(std::move(rows.indptr)), owned(std::move(rows.terms)), owned(std::move(rows.weights))));
}

nb::bytes ciff_list(std::string_view term, const Array<std::uint32_t>& rows, const Array<std::uint32_t>& tfs) {
    if (rows.size() != tfs.size()) throw std::invalid_argument("expected as many rows as weights");
    std::string out;
    {
        const nb::gil_scoped_release release;
        append_ciff_list(term, view(rows), view(tfs), out);
    }
    return bytes_object(out);
}

nb::bytes ciff_docs(std::uint64_t first_row, const Strings& ids, const Array<std::int64_t>& lengths) {
    if (ids.size() != lengths.size()) throw std::invalid_argument("expected as many ids as lengths");
    std::string out;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        append_ciff_doc(first_row + i, utf8_of(ids[i]), static_cast<std::uint64_t>(view(lengths)[i]), out);
    }
    return bytes_object(out);
}

nb::object hash_texts(const Array<std::uint64_t>& offsets, const Array<std::uint8_t>& text) {
    require_offsets("offsets", view(offsets), text.size());
    std::vector<std::uint64_t> hashes(offsets.size() - 1);
    {
        const nb::gil_scoped_release release;
        const std::string_view all(reinterpret_cast<const char*>(text.data()), text.size());
        for (std::size_t i = 0; i < hashes.size(); ++i) {
            const std::uint64_t first = view(offsets)[i];
            hashes[i] = stable_hash(all.substr(first, view(offsets)[i + 1] - first));
        }
    }
    return owned(std::move(hashes));
}

}  // namespace

void register_io(nb::module_& module) {
    using namespace nb::literals;
    const nb::exception<InputError> input_error(module, "CoreInputError", PyExc_ValueError);

    nb::class_<JsonVectorParser>(module, "JsonVectorParser", "Vectors as lines of JSON, in.")
        .def(nb::init<>())
        .def("parse", &parse_lines, nb::sig("def parse(self, text: bytes | memoryview) -> None"), "text"_a,
             "Take lines in; `text` ends where a line does.")
        .def("take", &take_rows, "The ids, indptr, terms and weights of the rows since the last call.")
        .def("start_file", &JsonVectorParser::start_file, "Count lines from 1 again.")
        .def(
            "terms", [](const JsonVectorParser& self, std::size_t first) { return strings(self.vocabulary(), first); },
            "first"_a, "The terms from a number on.")
        .def_prop_ro("num_terms", [](const JsonVectorParser& self) { return self.vocabulary().size(); });

    nb::class_<JsonVectorFormatter>(module, "JsonVectorFormatter", "Vectors as lines of JSON, out.")
        .def(nb::init<>())
        .def(
            "add_terms",
            [](JsonVectorFormatter& self, const Strings& terms) {
                for (const nb::handle term : terms) self.add_term(utf8_of(term));
            },
            "terms"_a, "Name the next columns.")
        .def_prop_ro("num_terms", &JsonVectorFormatter::num_terms)
        .def("format", &format_lines, "ids"_a, "indptr"_a, "terms"_a, "weights"_a, "numbers"_a,
             "A line per row; ids that are whole numbers are written as such if `numbers`.");

    module.def("read_json_texts", &packed_texts,
               nb::sig("def read_json_texts(lines: bytes | memoryview) -> tuple[list[str], "
                       "numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint8]] | None"),
               "lines"_a,
               "Texts as lines of JSON: ids, if there are any; the lengths of title, text, title, ...; and these, in "
               "UTF-8. None if there is something odd about a line.");

    nb::class_<CiffParser>(module, "CiffParser", "CIFF, in: postings dealt out to buckets of documents.")
        .def(nb::init<std::size_t>(), "block_bytes"_a)
        .def("feed", &feed, nb::sig("def feed(self, data: bytes | memoryview) -> None"), "data"_a,
             "Take the next bytes of the file.")
        .def("finish", &CiffParser::finish, "Say that the file has ended.")
        .def_prop_ro("has_header", &CiffParser::has_header)
        .def_prop_ro("num_docs", [](const CiffParser& self) { return self.header().num_docs; })
        .def_prop_ro("num_lists", [](const CiffParser& self) { return self.header().num_lists; })
        .def_prop_ro("num_postings", &CiffParser::num_postings)
        .def("set_bucket_docs", &CiffParser::set_bucket_docs, "docs"_a,
             "Choose the documents per bucket: once, after the header.")
        .def("take_blocks", &take_blocks, "The blocks that are ready, each with its bucket.")
        .def(
            "terms", [](const CiffParser& self) { return strings(self.terms(), 0); }, "All terms.")
        .def("doc_ids", &doc_ids, "first"_a, "last"_a, "The ids of some documents.");
    module.def("read_ciff_bucket", &read_bucket,
               nb::sig("def read_ciff_bucket(data: bytes | memoryview, first_doc: int, num_docs: int) -> "
                       "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint32], "
                       "numpy.typing.NDArray[numpy.float64]]"),
               "data"_a, "first_doc"_a, "num_docs"_a, "The rows of a bucket: indptr, terms and weights.");
    module.def("hash_texts", &hash_texts,
               nb::sig("def hash_texts(offsets: numpy.typing.NDArray[numpy.uint64], "
                       "text: numpy.typing.NDArray[numpy.uint8]) -> numpy.typing.NDArray[numpy.uint64]"),
               "offsets"_a, "text"_a,
               "A hash of each text, the same on every machine; text i is text[offsets[i]:offsets[i + 1]].");
    module.def("ciff_list", &ciff_list, "term"_a, "rows"_a, "tfs"_a, "A postings list as CIFF has it.");
    module.def("ciff_docs", &ciff_docs, "first_row"_a, "ids"_a, "lengths"_a, "Document records as CIFF has them.");
}

}  // namespace segmax::bindings
