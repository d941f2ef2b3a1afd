// Foreign files: lines of JSON and CIFF, in whole and in pieces. Python's tests compare both with slow twins.
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "segmax/io/ciff.hpp"
#include "segmax/io/errors.hpp"
#include "segmax/io/json_texts.hpp"
#include "segmax/io/json_vectors.hpp"

namespace {

using namespace segmax;
using namespace segmax::test;

std::string message_of(std::string_view text) {
    JsonVectorParser parser;
    try {
        parser.parse(text);
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

VectorRows parsed(std::string_view text) {
    JsonVectorParser parser;
    parser.parse(text);
    return parser.take();
}

std::string with_length(const std::string& message) {
    return std::string(1, static_cast<char>(message.size())) + message;
}

/// A CIFF file of three documents and two terms, put together by hand as protobuf writes it: zeros are left out.
std::string small_ciff() {
    const std::string header("\x08\x01\x10\x02\x18\x03");  // version 1, 2 lists, 3 documents
    const std::string first = std::string("\x0A\x01") + "b\x10\x02\x18\x04" + "\x22\x02\x10\x03" +
                              "\x22\x04\x08\x02\x10\x01";                                   // b: 0 with 3, 2 with 1
    const std::string second = std::string("\x0A\x01") + "a" + "\x22\x04\x08\x01\x10\x07";  // a: 1 with 7; no df, no cf
    const std::string docs[] = {std::string("\x12\x03") + "one", std::string("\x08\x01\x12\x03") + "two", "\x08\x02"};
    std::string file;
    for (const std::string& message : {header, first, second, docs[0], docs[1], docs[2]}) file += with_length(message);
    return file;
}

/// The texts of a line or more: id, title and text, with a bar between any two; "odd" where Python has to look.
std::string texts_of(std::string_view lines) {
    const auto found = read_json_texts(lines);
    if (!found) return "odd";
    std::string all;
    std::size_t at = 0;
    for (std::size_t i = 0; i < found->lengths.size(); ++i) {
        if (i % 2 == 0) all.append(i == 0 ? "" : "|").append(found->ids.size() == 0 ? "" : found->ids[i / 2]);
        const auto* part = reinterpret_cast<const char*>(found->content.data()) + at;
        all.append("|").append(part, found->lengths[i]);
        at += found->lengths[i];
    }
    return all;
}

TEST(json_texts_are_read) {
    CHECK_EQ(texts_of(""), "");
    CHECK_EQ(texts_of("{\"id\": \"a\", \"text\": \"one\"}\n\n {\"_id\":7,\"title\":\"T\",\"contents\":\"two\"} \r\n"),
             "a||one|7|T|two");
    CHECK_EQ(texts_of(R"({"text": "t\u00e9\n\"x\"", "other": [1, {"a": null}], "title": null})"), "||t\xC3\xA9\n\"x\"");
    CHECK_EQ(texts_of(R"({"docid": 1, "id": "\u0031\u0032", "body": "b", "text": "t", "headline": "h"})"), "12|h|t");
    CHECK_EQ(texts_of(R"({"title": "only", "text": null})"), "|only|");
}

TEST(json_texts_that_are_odd) {
    for (const char* line : {"[]",
                             "{}",
                             "{\"id\": \"a\"}",
                             R"({"text": 5})",
                             R"({"id": "", "text": "a"})",
                             R"({"id": 1.5, "text": "a"})",
                             R"({"id": null, "text": "a"})",
                             R"({"text": "a", "text": "b"})",
                             R"({"Text": "a", "text": "b"})",
                             R"({" ID ": "a", "text": "b"})",
                             R"({"te\u0078t": "a"})",
                             R"({"text": "\ud800"})",
                             "{\"text\": \"\xFF\"}",
                             R"({"text": "a"} x)",
                             R"({"text": "a", "n": NaN})",
                             R"({"text": "a")",
                             R"({"text": 1, "body": "b"})",
                             "\xEF\xBB\xBF{\"text\": \"a\"}",
                             R"({"id": -1, "text": "a"})",
                             R"({"id": 1234567890123456789, "text": "a"})",
                             "{\"id\": \"a\", \"text\": \"b\"}\n{\"text\": \"c\"}",
                             "{\"text\": \"b\"}\n{\"id\": 1, \"text\": \"c\"}"}) {
        const Note note([&] { return std::string(line); });
        CHECK_EQ(texts_of(line), "odd");
    }
    const std::string deep = std::string(65, '[') + std::string(65, ']');
    CHECK_EQ(texts_of("{\"text\": \"a\", \"x\": " + deep + "}"), "odd");
    CHECK_EQ(texts_of("{\"text\": \"a\", \"x\": " + std::string(4097, '1') + "}"), "odd");
}

}  // namespace

// Ids, terms and weights of lines with escapes, unknown fields, Windows line ends and no line feed at the end.
TEST(json_vectors_are_read) {
    const VectorRows rows = parsed(
        "\xEF\xBB\xBF{\"id\": \"a\", \"contents\": {\"x\": [1, {\"y\": null}]}, \"vector\": {\"t\": 1.5, \"u\\u00e9\": "
        "2}}\r\n"
        "\n"
        "{\"vector\": {}, \"id\": 12}\n"
        "{\"_id\": \"\\ud83d\\ude00\", \"vector\": {\"u\xC3\xA9\": 1e-3}}");
    CHECK_EQ(rows.ids.size(), 3U);
    CHECK_EQ(rows.ids[0], "a");
    CHECK_EQ(rows.ids[1], "12");
    CHECK_EQ(rows.ids[2], "\xF0\x9F\x98\x80");
    CHECK_EQ(rows.indptr, (std::vector<std::int64_t>{0, 2, 2, 3}));
    CHECK_EQ(rows.terms, (std::vector<std::uint32_t>{0, 1, 1}));
    CHECK_EQ(rows.weights, (std::vector<double>{1.5, 2, 1e-3}));
}

// What is wrong is told with the line and the byte.
TEST(json_vectors_that_cannot_be) {
    const std::string good = "{\"id\": 1, \"vector\": {\"a\": 1}}\n";
    CHECK_EQ(message_of(good + "{\"id\": 2, \"vector\": {\"a\": \"x\"}}"),
             "line 2, byte 27: expected a number as the weight of \"a\", got a string");
    CHECK_EQ(message_of(good + good + "{\"id\": 2"),
             "line 3, byte 9: expected '}' or ',' behind a member, got the end of the line");
    for (const char* line : {"[]", "{}", "{\"id\": 1}", "{\"vector\": {}}", "{\"id\": null, \"vector\": {}}",
                             "{\"id\": 1.5, \"vector\": {}}", "{\"id\": 1, \"vector\": {\"a\": -1}}",
                             "{\"id\": 1, \"vector\": {\"a\": 1e999}}", "{\"id\": 1, \"vector\": {\"a\": 01}}",
                             "{\"id\": 1, \"vector\": {\"a\": 1.}}", "{\"id\": 1, \"vector\": {\"a\": NaN}}",
                             "{\"id\": 1, \"vector\": {\"a\": 1,}}", "{\"id\": 1, \"vector\": {\"a\": 1, \"a\": 2}}",
                             "{\"id\": 1, \"vector\": {\"\\ud800\": 1}}", "{\"id\": 1, \"vector\": {\"\xFF\": 1}}",
                             "{\"id\": 1, \"vector\": {}} x", "{\"id\": 1, \"vector\": {}, \"c\": \"\\x\"}",
                             "{\"id\": 1, \"vector\": {}, \"c\": [1, }", "{\"id\": 1, \"vector\": {}, \"c\": tru}"}) {
        NOTE(line);
        CHECK(message_of(line).starts_with("line 1, byte "));
    }
}

// Whatever a line is cut to, reading it ends in a value or an error.
TEST(json_vectors_cut_anywhere) {
    const std::string line =
        "{\"id\": \"\\u00e9\\\"\", \"c\": [true, {\"k\": -1.5e+3}], \"vector\": {\"a\\n\": 12.25, \"b\": 0}}";
    for (std::size_t length = 1; length < line.size(); ++length) CHECK(!message_of(line.substr(0, length)).empty());
    CHECK(message_of(line).empty());
}

// What is written is read back.
TEST(json_vectors_round_trip) {
    JsonVectorFormatter formatter;
    formatter.add_term("\"quoted\"\n");
    formatter.add_term("\xC3\xA9");
    const std::vector<std::uint32_t> terms{1, 0};
    const std::vector<double> weights{0.1, 300};
    std::string text;
    formatter.append("tab\t", false, terms, weights, text);
    formatter.append("17", true, terms, weights, text);
    const VectorRows rows = parsed(text);
    CHECK_EQ(rows.ids[0], "tab\t");
    CHECK_EQ(rows.ids[1], "17");
    CHECK(text.find("\"id\": 17,") != std::string::npos);
    CHECK_EQ(rows.weights, (std::vector<double>{0.1, 300, 0.1, 300}));
}

// A file is read the same in whatever pieces it comes, into however small buckets.
TEST(ciff_in_pieces) {
    const std::string file = small_ciff();
    for (std::size_t piece = 1; piece <= file.size(); ++piece) {
        for (const std::uint64_t bucket_docs : {1, 2, 3}) {
            NOTE("pieces of " << piece << ", buckets of " << bucket_docs);
            CiffParser parser(2);
            std::vector<std::string> buckets(3);
            for (std::size_t at = 0; at < file.size(); at += piece) {
                const bool had_header = parser.has_header();
                parser.feed(std::string_view(file).substr(at, piece));
                if (!had_header && parser.has_header()) {
                    parser.set_bucket_docs(bucket_docs);
                    parser.feed("");
                }
            }
            parser.finish();
            for (const CiffBlock& block : parser.take_blocks()) buckets[block.bucket] += block.bytes;
            std::vector<std::uint32_t> terms;
            std::vector<double> weights;
            for (std::uint64_t first = 0; first < 3; first += bucket_docs) {
                const std::uint64_t count = std::min<std::uint64_t>(bucket_docs, 3 - first);
                const VectorRows rows = read_ciff_bucket(buckets[first / bucket_docs], first, count);
                CHECK_EQ(rows.indptr.size(), count + 1);
                terms.insert(terms.end(), rows.terms.begin(), rows.terms.end());
                weights.insert(weights.end(), rows.weights.begin(), rows.weights.end());
            }
            CHECK_EQ(terms, (std::vector<std::uint32_t>{0, 1, 0}));
            CHECK_EQ(weights, (std::vector<double>{3, 7, 1}));
            CHECK_EQ(parser.terms()[0], "b");
            CHECK_EQ(parser.doc_id(1), "two");
            CHECK_EQ(parser.doc_id(2), "");
        }
    }
}

// A file that is cut short anywhere, or too long, is an error.
TEST(ciff_cut_anywhere) {
    const std::string file = small_ciff();
    const auto read = [](std::string_view data) {
        CiffParser parser;
        parser.feed(data);
        if (parser.has_header()) {
            parser.set_bucket_docs(2);
            parser.feed("");
        }
        parser.finish();
    };
    read(file);
    for (std::size_t length = 0; length < file.size(); ++length) {
        NOTE("cut to " << length);
        CHECK_THROWS(read(std::string_view(file).substr(0, length)), InputError);
    }
    CHECK_THROWS(read(file + "x"), InputError);
    // And with any byte changed it is read, or an error.
    for (std::size_t place = 0; place < file.size(); ++place) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string damaged = file;
            damaged[place] = static_cast<char>(damaged[place] ^ (1 << bit));
            try {
                read(damaged);
            } catch (const InputError&) {
            }
        }
    }
}

// Texts in messages stay on one line, decode as UTF-8 and are cut between characters.
TEST(texts_in_messages) {
    CHECK_EQ(shown("cat"), std::string("\"cat\""));
    CHECK_EQ(shown("a\n\x1b[2J\x7f"), std::string("\"a\\x0a\\x1b[2J\\x7f\""));
    CHECK_EQ(shown("\xc2\x9b"), std::string("\"\\xc2\\x9b\""));
    CHECK_EQ(shown("\xff\xc3"), std::string("\"\\xff\\xc3\""));
    for (std::size_t length = 0; length < 200; ++length) {
        std::string text(length % 4, 'x');
        while (text.size() < length) text += "\xf0\x9f\x98\x80";
        CHECK(is_utf8(shown(text)));
        CHECK(shown(text).size() < 80);
    }
}

// Lists that are written are read back.
TEST(ciff_lists_round_trip) {
    std::string file = std::string("\x06\x08\x01\x10\x01\x18\x7F", 7);
    const std::vector<std::uint32_t> rows{0, 1, 100, 126};
    const std::vector<std::uint32_t> tfs{1, 300, 70000, 2};
    append_ciff_list("term", rows, tfs, file);
    for (std::uint64_t row = 0; row < 127; ++row) append_ciff_doc(row, std::to_string(row), 3 * row, file);
    CiffParser parser;
    parser.feed(file);
    parser.set_bucket_docs(127);
    parser.feed("");
    parser.finish();
    const auto blocks = parser.take_blocks();
    CHECK_EQ(blocks.size(), 1U);
    const VectorRows read = read_ciff_bucket(blocks[0].bytes, 0, 127);
    CHECK_EQ(read.weights, (std::vector<double>{1, 300, 70000, 2}));
    CHECK_EQ(read.indptr[126], 3);
    CHECK_EQ(parser.doc_id(126), "126");
}
