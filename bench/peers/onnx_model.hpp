// A model of one node in ONNX's file format, which is a protobuf message: onnx.proto gives the field numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench::onnx {

/// A protobuf message that is being written.
class Message {
 public:
  Message& number(unsigned field, std::uint64_t value) {
    varint(field << 3U);
    varint(value);
    return *this;
  }
  Message& text(unsigned field, const std::string& value) {
    varint(field << 3U | 2U);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(unsigned field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

enum class Element : std::uint8_t { float32 = 1, int32 = 6 };

struct Tensor {
  const char* name;
  Element element;
  std::vector<std::int64_t> shape;
};

struct Node {
  const char* op_type;
  const char* domain;
  std::vector<std::pair<const char*, std::int64_t>> attributes;
  std::vector<Tensor> inputs, outputs;
};

/// The bytes of a model whose inputs and outputs are those of its only node.
inline std::string model(const Node& node) {
  const auto value_info = [](const Tensor& t) {
    Message shape;
    for (const std::int64_t d : t.shape) shape.message(1, Message().number(1, static_cast<std::uint64_t>(d)));
    const Message tensor = Message().number(1, static_cast<std::uint64_t>(t.element)).message(2, shape);
    return Message().text(1, t.name).message(2, Message().message(1, tensor));
  };
  Message proto, graph;
  for (const Tensor& t : node.inputs) proto.text(1, t.name);
  for (const Tensor& t : node.outputs) proto.text(2, t.name);
  proto.text(4, node.op_type).text(7, node.domain);
  constexpr std::uint64_t type_int = 2;
  for (const auto& [name, value] : node.attributes)
    proto.message(5, Message().text(1, name).number(3, static_cast<std::uint64_t>(value)).number(20, type_int));
  graph.message(1, proto).text(2, node.op_type);
  for (const Tensor& t : node.inputs) graph.message(11, value_info(t));
  for (const Tensor& t : node.outputs) graph.message(12, value_info(t));
  constexpr std::uint64_t ir_version = 8, standard_version = 17;
  return Message()
      .number(1, ir_version)
      .message(7, graph)
      .message(8, Message().text(1, "").number(2, standard_version))
      .message(8, Message().text(1, node.domain).number(2, 1))
      .bytes();
}

}  // namespace bench::onnx
