// How arrays enter and leave: a pointer with extents and strides, made from Eigen types, mdspan-like types or raw
// memory.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/contract.hpp"

namespace lockstep {

namespace detail {

// The interfaces are recognised by what they offer, so that only users of a type pay for its header.
template <class U>
concept ViewLike = requires(U& u) {
  typename U::Extents;
  u.extent[U::rank - 1];
};
template <class U>
concept MatrixLike = requires(U& u) {
  u.data();
  { u.rows() } -> std::convertible_to<Index>;
  { u.cols() } -> std::convertible_to<Index>;
  { u.rowStride() } -> std::convertible_to<Index>;
  { u.colStride() } -> std::convertible_to<Index>;
};
template <class U>
concept TensorLike = requires(U& u) {
  u.data();
  { u.dimension(0) } -> std::convertible_to<Index>;
  U::NumDimensions;
  U::Layout;
};
template <class U>
concept MdspanLike = requires(U& u) {
  u.data_handle();
  { u.extent(0) } -> std::convertible_to<Index>;
  { u.stride(0) } -> std::convertible_to<Index>;
  { U::rank() } -> std::convertible_to<int>;
};
template <class U>
concept ListLike = !MatrixLike<U> && !TensorLike<U> && requires(U& u) {
  u.data();
  { u.size() } -> std::convertible_to<std::size_t>;
};

// A dimension's number, in whatever integer type the function at hand takes.
struct AxisNumber {
  int number;
  template <std::integral I>
  constexpr operator I() const noexcept {
    return static_cast<I>(number);
  }
};

template <class U>
constexpr int rank_of() {
  if constexpr (ViewLike<U>)
    return U::rank;
  else if constexpr (MatrixLike<U>)
    return (U::IsVectorAtCompileTime) ? 1 : 2;  // a vector may also be taken as a matrix: see View's constructor
  else if constexpr (TensorLike<U>)
    return static_cast<int>(U::NumDimensions);
  else if constexpr (MdspanLike<U>)
    return static_cast<int>(U::rank());
  else if constexpr (ListLike<U>)
    return 1;
  else
    return -1;
}

template <class U>
auto data_of(U& u) {
  if constexpr (ViewLike<U>)
    return u.data;
  else if constexpr (MdspanLike<U>)
    return u.data_handle();
  else
    return u.data();
}

}  // namespace detail

/// Something that a View<T, Rank> can be made of: element type T (or T without const), at most Rank dimensions.
template <class U, class T, int Rank>
concept ViewableAs =
    (detail::rank_of<std::remove_reference_t<U>>() >= 0) && (detail::rank_of<std::remove_reference_t<U>>() <= Rank) &&
    requires(std::remove_reference_t<U>& u) {
      { detail::data_of(u) } -> std::convertible_to<T*>;
      requires std::same_as<std::remove_cv_t<std::remove_pointer_t<decltype(detail::data_of(u))>>, std::remove_cv_t<T>>;
    };

/// A borrowed array of Rank dimensions: element (i, j, ...) lies at data + i stride[0] + j stride[1] + ..., strides in
/// elements. Made from raw memory, from Eigen's Matrix, Map, Ref, Tensor and TensorMap, from anything with mdspan's
/// data_handle()/extent()/stride(), or from a pointer to one of these (null: an absent view). What has fewer
/// dimensions gets leading extents of 1. Nothing is copied; the memory must outlive the view.
template <class T, int Rank>
struct View {
  static_assert(Rank >= 1);
  static constexpr int rank = Rank;  ///< number of dimensions
  /// One number a dimension.
  using Extents = std::array<Index, static_cast<std::size_t>(Rank)>;

  T* data = nullptr;  ///< element (0, 0, ...)
  Extents extent{};   ///< elements along each dimension
  Extents stride{};   ///< elements from one index to the next

  constexpr View() noexcept = default;
  constexpr View(std::nullptr_t) noexcept {}  ///< absent
  /// Raw memory with strides.
  constexpr View(T* data_, Extents extent_, Extents stride_) noexcept : data(data_), extent(extent_), stride(stride_) {}

  /// A row-major array without gaps.
  static constexpr View contiguous(T* data_, Extents extent_) noexcept {
    View v(data_, extent_, {});
    Index step = 1;
    for (std::size_t i = static_cast<std::size_t>(Rank); i-- > 0;) {
      v.stride[i] = step;
      step = wrapped_product(step, extent_[i]);
    }
    return v;
  }

  /// Of anything that ViewableAs takes.
  template <class U>
    requires(!std::same_as<std::remove_cvref_t<U>, View> && ViewableAs<U, T, Rank>)
  constexpr View(U&& u) noexcept {
    using Source = std::remove_reference_t<U>;
    [[maybe_unused]] constexpr int n = detail::rank_of<Source>(), lead = rank - n;
    data = detail::data_of(u);
    extent.fill(1);
    if constexpr (detail::MatrixLike<Source> && Rank == 1) {
      set(0, u.size(), u.innerStride());
    } else if constexpr (detail::MatrixLike<Source>) {
      set(rank - 2, u.rows(), u.rowStride());
      set(rank - 1, u.cols(), u.colStride());
    } else if constexpr (detail::TensorLike<Source>) {
      constexpr bool column_major = static_cast<int>(Source::Layout) == static_cast<int>(Eigen::ColMajor);
      Index step = 1;
      for (int k = 0; k < n; ++k) {
        const int i = column_major ? k : n - 1 - k;
        set(lead + i, u.dimension(detail::AxisNumber{i}), step);
        step = wrapped_product(step, extent[static_cast<std::size_t>(lead + i)]);
      }
    } else if constexpr (detail::MdspanLike<Source>) {
      for (int i = 0; i < n; ++i) set(lead + i, u.extent(detail::AxisNumber{i}), u.stride(detail::AxisNumber{i}));
    } else if constexpr (detail::ViewLike<Source>) {
      std::copy(u.extent.begin(), u.extent.end(), extent.begin() + lead);
      std::copy(u.stride.begin(), u.stride.end(), stride.begin() + lead);
    } else {
      set(rank - 1, u.size(), 1);
    }
  }

  /// Of what a pointer points to; null: absent.
  template <class U>
    requires ViewableAs<U&, T, Rank>
  constexpr View(U* u) noexcept {
    if (u != nullptr) *this = View(*u);
  }

  /// The distance of element (i...) from data, in 64 bits.
  template <class... I>
  constexpr Index offset(I... i) const noexcept {
    static_assert(sizeof...(I) == static_cast<std::size_t>(Rank));
    Index sum = 0;
    std::size_t k = 0;
    ((sum += static_cast<Index>(i) * stride[k++]), ...);
    return sum;
  }
  /// Element (i...).
  template <class... I>
  constexpr T& operator()(I... i) const noexcept {
    return data[offset(i...)];
  }

  /// Number of elements.
  constexpr Index size() const noexcept {
    Index n = 1;
    for (const Index e : extent) n = wrapped_product(n, e);
    return n;
  }
  constexpr bool present() const noexcept { return data != nullptr; }  ///< points somewhere
  /// Whether some extent is 0: then there are no elements, and no memory is needed.
  constexpr bool empty() const noexcept {
    for (const Index e : extent)
      if (e == 0) return true;
    return false;
  }

  /// The part [first, first + count) of dimension `axis`; of an absent view, an absent one.
  constexpr View part(int axis, Index first, Index count) const noexcept {
    View v = *this;
    v.data = data == nullptr ? nullptr : data + first * stride[static_cast<std::size_t>(axis)];
    v.extent[static_cast<std::size_t>(axis)] = count;
    return v;
  }
  /// The view without its first dimension, at index i of it; absent alike.
  constexpr auto at(Index i) const noexcept
    requires(Rank > 1)
  {
    // Clang 14 looks into this where a view of one dimension is explicitly instantiated.
    View<T, Rank == 1 ? 1 : Rank - 1> v;
    v.data = data == nullptr ? nullptr : data + i * stride[0];
    std::copy(extent.begin() + 1, extent.end(), v.extent.begin());
    std::copy(stride.begin() + 1, stride.end(), v.stride.begin());
    return v;
  }

 private:
  // Extents that 64 bits do not count are for the functions that take views to refuse: here they only must not trap.
  static constexpr Index wrapped_product(Index a, Index b) noexcept {
    return static_cast<Index>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
  template <class Extent, class Stride>
  constexpr void set(int axis, Extent n, Stride step) noexcept {
    extent[static_cast<std::size_t>(axis)] = static_cast<Index>(n);
    stride[static_cast<std::size_t>(axis)] = static_cast<Index>(step);
  }
};

/// The order of key and value memory: NHD or HND.
enum class Order { token_head_dim, head_token_dim };

namespace detail {

/// A view in some order as [tokens, heads, dim].
template <class T>
constexpr View<T, 3> tokens_first(View<T, 3> view, Order order) noexcept {
  if (order == Order::head_token_dim) {
    std::swap(view.extent[0], view.extent[1]);
    std::swap(view.stride[0], view.stride[1]);
  }
  return view;
}

/// A view of any type and rank: what checks it is compiled once.
struct AnyView {
  const void* data;
  std::span<const Index> extent, stride;
  Index element_bytes;
  bool writable;
};

/// Whether the elements of a checked view lie at places of their own: each stride reaches beyond all that the smaller
/// ones span. (Strides that interleave without meeting are not told from those that meet.)
inline bool lies_apart(const AnyView& view) noexcept {
  const auto size = [&view](std::size_t i) { return view.stride[i] < 0 ? -view.stride[i] : view.stride[i]; };
  for (std::size_t i = 0; i < view.extent.size(); ++i) {
    if (view.extent[i] <= 1) continue;
    Index spanned = 0;  // the largest distance from the first element, by the smaller strides
    for (std::size_t j = 0; j < view.extent.size(); ++j)
      if (view.extent[j] > 1 && (size(j) < size(i) || (size(j) == size(i) && j < i)))
        spanned += (view.extent[j] - 1) * size(j);
    if (size(i) <= spanned) return false;
  }
  return true;
}

inline Status check_any(const char* argument, const AnyView& view, std::span<const Index> allowed) noexcept {
  if (!std::equal(view.extent.begin(), view.extent.end(), allowed.begin()))
    return Status::invalid(argument, "given {}, allowed {}", view.extent, allowed);
  bool empty = false;
  for (const Index e : allowed) {
    if (e < 0) return Status::invalid(argument, "given {}, allowed extents from 0", allowed);
    empty = empty || e == 0;
  }
  if (empty) return {};
  if (view.data == nullptr) return Status::invalid(argument, "given a null view, allowed {}", allowed);
  const char* wrong = nullptr;
  Index reach = 0, count = 1;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    Index step = 0;
    if (__builtin_mul_overflow(count, allowed[i], &count) ||
        __builtin_mul_overflow(allowed[i] - 1, view.stride[i], &step) || step == INT64_MIN ||
        __builtin_add_overflow(reach, step < 0 ? -step : step, &reach) || reach >= INT64_MAX / view.element_bytes)
      wrong = "products below 2^63 bytes";
  }
  if (wrong == nullptr && view.writable && !lies_apart(view)) wrong = "strides that part all numbers to be written";
  if (wrong == nullptr) return {};
  return Status::invalid(argument, "given strides {} for {}, allowed {}", view.stride, allowed, wrong);
}

/// Refuses a view of another shape than `allowed`, extents below 0, a null view that has elements, extents or strides
/// whose products leave 64 bits, and, where it can be written, elements that share memory.
template <class T, int Rank>
Status check_shape(const char* argument, const View<T, Rank>& view,
                   const std::array<Index, static_cast<std::size_t>(Rank)>& allowed) noexcept {
  return check_any(argument, {view.data, view.extent, view.stride, sizeof(T), !std::is_const_v<T>}, allowed);
}
/// The same for an optional view: an absent one passes.
template <class T, int Rank>
Status check_optional(const char* argument, const View<T, Rank>& view,
                      const std::array<Index, static_cast<std::size_t>(Rank)>& allowed) noexcept {
  return view.present() || !view.empty() ? check_shape(argument, view, allowed) : Status{};
}

/// Numbers that a policy keeps, in compute type C. Errors: those of check_shape(), more than 2^31.
template <class C, class S>
std::vector<C> copied(const char* argument, View<const S, 1> numbers) {
  const Index count = numbers.extent[0];
  if (count > size_limit) raise(Status::invalid(argument, "given {} numbers, allowed up to 2^31", count));
  raise_unless_ok(check_shape(argument, numbers, {count}));
  std::vector<C> own(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) own[static_cast<std::size_t>(i)] = static_cast<C>(numbers(i));
  return own;
}

/// The bytes [first, last) between the lowest and the highest element of a checked view.
struct ByteRange {
  std::uintptr_t first = 0, last = 0;
};
template <class T, int Rank>
ByteRange bytes_of(const View<T, Rank>& view) noexcept {
  if (view.data == nullptr || view.empty()) return {};
  Index low = 0, high = 0;
  for (std::size_t i = 0; i < view.extent.size(); ++i) {
    const Index step = (view.extent[i] - 1) * view.stride[i];
    (step < 0 ? low : high) += step;
  }
  const auto base = reinterpret_cast<std::uintptr_t>(view.data);
  return {base + static_cast<std::uintptr_t>(low * static_cast<Index>(sizeof(T))),
          base + static_cast<std::uintptr_t>((high + 1) * static_cast<Index>(sizeof(T)))};
}
template <class T>
ByteRange bytes_of(std::span<T> list) noexcept {
  return list.empty() ? ByteRange{} : bytes_of(View<T, 1>(list));
}
inline bool overlap(ByteRange a, ByteRange b) noexcept { return a.first < b.last && b.first < a.last; }

/// An argument's memory.
struct NamedBytes {
  const char* name;
  ByteRange bytes;
};
/// Refuses memory to be written that is also another argument's. Absent views have none.
inline Status check_apart(std::initializer_list<NamedBytes> read, std::initializer_list<NamedBytes> written) noexcept {
  for (const NamedBytes* w = written.begin(); w != written.end(); ++w)
    for (const auto& [first, last] : {std::pair{read.begin(), read.end()}, {written.begin(), w}})
      for (const NamedBytes* other = first; other != last; ++other)
        if (overlap(w->bytes, other->bytes))
          return Status::invalid(w->name, "given memory that overlaps {}, allowed memory of its own", other->name);
  return {};
}
/// What a cache, or a policy that borrows arrays, has by a member memory().
template <class P>
ByteRange memory_of(const P& holder) noexcept {
  if constexpr (requires(ByteRange bytes) { bytes = holder.memory(); }) return holder.memory();
  return {};
}
/// The same for what a checked policy, its parts a and b or its rotary table borrow, for a cache, and for plain keys
/// and values.
template <class P>
Status check_apart_from(const char* name, const P& holder, std::initializer_list<NamedBytes> written) noexcept {
  if constexpr (requires { holder.a, holder.b; })
    return first_error(check_apart_from(name, holder.a, written), check_apart_from(name, holder.b, written));
  else if constexpr (requires { bytes_of(holder.keys), bytes_of(holder.values); })
    return check_apart({{"keys", bytes_of(holder.keys)}, {"values", bytes_of(holder.values)}}, written);
  else if constexpr (requires { bytes_of(holder.table().cosines()); })
    return check_apart({{name, memory_of(holder)},
                        {"cos", bytes_of(holder.table().cosines())},
                        {"sin", bytes_of(holder.table().sines())}},
                       written);
  else
    return check_apart({{name, memory_of(holder)}}, written);
}

}  // namespace detail

}  // namespace lockstep
