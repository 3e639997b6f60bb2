// The fast kernel: row tiles against 256-key blocks. Included once for each instruction set; see tiled.hpp.

/// Rows of a full register tile: where there is room for several lines, half of them beside more rows, so that lines
/// come half as often. AVX-512: 28 sums, two vectors of lines and a broadcast, 31 of 32 registers.
template <class C>
inline constexpr int full_rows = static_cast<int>(Simd<C>::lines > 1 ? most_tile_rows : Simd<C>::rows);
/// Lines of a register tile of R rows: so many that sums, lines and a broadcast fit the registers.
template <class C, int R>
inline constexpr int tile_lines = static_cast<int>(R > Simd<C>::rows ? (Simd<C>::lines + 1) / 2 : Simd<C>::lines);

/// Beside a load of N lines: few rows request what comes next from memory, a full tile what comes next from the
/// second-level cache. One load brings 16 lanes a line: of one step, or of the two in a line of pairs.
template <int N, bool Few, class S, class Places>
[[gnu::always_inline]] inline void request(const S* lines, Places places, Index k, Ahead& ahead) noexcept {
  constexpr Index steps = BlockLayout<S>::pair, bytes = lanes * steps * static_cast<Index>(sizeof(S));
  constexpr Index wanted = Few ? Ahead::streams * Ahead::line : Ahead::line, brought = Few ? N * bytes : bytes;
  constexpr Index turn = brought < wanted ? wanted / brought : 1;
  static_assert((turn & (turn - 1)) == 0);
  if constexpr (Few)
    ahead.request(k / steps, turn);
  else if ((k / steps & (turn - 1)) == 0)
    fetch_lines<N>(lines, places, k);
}

/// A block from one of its key tiles on.
template <class S>
inline CacheBlock<S> from_tile(CacheBlock<S> block, Index tile, Index head_dim) noexcept {
  block.keys += tile * BlockLayout<S>::key_tile(head_dim);
  if constexpr (is_quantised<S>) block.key_scales += tile * lanes;
  return block;
}

/// Logits of R rows and the first N key tiles of `block`: rule 2, and 9 for codes. Few rows wait for memory, not for
/// arithmetic: they request `ahead` meanwhile.
template <class C, class S, int R, int N, bool Few>
[[gnu::noinline]] void score_lines(const C* query, Index q_part, const CacheBlock<S>& block, Index head_dim, C* score,
                                   Ahead& ahead) noexcept {
  using Scratch = TiledScratch<C>;
  const S* keys = block.keys;
  RegisterTile<C, R, N> tile;
  tile.clear();
  const LinePlaces<N, lanes> tiles{BlockLayout<S>::key_tile(head_dim)};
  // One part of the queries after the other, dimensions counted on: the keys have no parts.
  for (Index first = 0; first < head_dim; first += Scratch::row_size, query += q_part - Scratch::row_size)
    reduce(tile, query, Scratch::stride, keys, tiles, first,
           head_dim < first + Scratch::row_size ? head_dim : first + Scratch::row_size,
           [&](Index k) __attribute__((always_inline)) { request<N, Few>(keys, tiles, k, ahead); });
  unroll<R>([&](auto r) __attribute__((always_inline)) {
    unroll<tile.vectors>([&](auto v) __attribute__((always_inline)) {
      auto s = tile.sum[r][v];
      if constexpr (is_quantised<S>) s = Simd<C>::mul(s, Simd<C>::load(block.key_scales + v * Simd<C>::width));
      Simd<C>::store(score + r * Scratch::stride + v * Simd<C>::width, s);
    });
  });
}

/// f.template operator()<N>(line) for lines [first, last), N of them at a time: as many as the register tile of R rows
/// has, then fewer. Full tiles request some of `ahead` before each group: all at once would wait for one another.
template <class C, int R, bool Few, class F>
[[gnu::always_inline]] inline void for_each_group(Index first, Index last, Ahead& ahead, F&& f) noexcept {
  constexpr int most = tile_lines<C, R>;
  const auto group = [&]<int N>() __attribute__((always_inline)) {
    if constexpr (!Few) unroll<2>([&](auto) __attribute__((always_inline)) { ahead.request(0, 1); });
    f.template operator()<N>(first);
    first += N;
  };
  while (first + most <= last) group.template operator()<most>();
  if constexpr (most > 1)
    while (first < last) group.template operator()<1>();
}

/// o = fma(o, alpha, o_b) for a row of a register tile.
template <int R, class Tile, class C>
[[gnu::always_inline]] inline void join_sum(const Tile& tile, const RowInBlock<C>& row, C* sum) noexcept {
  using V = Simd<C>;
  const auto alpha = V::broadcast(row.alpha);
  unroll<Tile::vectors>([&](auto v) __attribute__((always_inline)) {
    C* o = sum + v * V::width;
    V::store(o, V::fma(row.first_block ? V::zero() : V::load(o), alpha, tile.sum[R][v]));
  });
}

/// o = fma(o, alpha, o_b) for R rows and N lines of values, o_b one chain over each row's range of keys: rule 4.
/// Keys that all rows see go through the register tile together, those before and after for the rows that see them.
template <class C, class S, int R, int N, bool Few>
[[gnu::noinline]] void weigh_lines(const C* weight, const S* values, const RowInBlock<C>* rows, C* sum, Index o_stride,
                                   Ahead& ahead) noexcept {
  using Line = Lines<C, S, N>;
  constexpr LinePlaces<N, lanes> slabs{BlockLayout<S>::value_slab};
  KeyRange seen[static_cast<std::size_t>(R)], some{}, common{0, block_keys};
  for (int r = 0; r < R; ++r) {
    seen[r] = rows[r].takes_part && !rows[r].listed ? rows[r].keys : KeyRange{};
    if (seen[r].empty()) continue;
    some = hull(some, seen[r]);
    common = intersection(common, seen[r]);
  }

  RegisterTile<C, R, N> tile;
  tile.clear();
  // Key by key, not row by row: which rows see a key is guessed right more often than how many keys a row has left.
  const auto some_rows = [&](Index k, Index end) __attribute__((always_inline)) {
    for (; k < end; ++k) {
      typename Simd<C>::Reg line[Line::vectors];
      Line::load(values, slabs, k, line);
      unroll<R>([&](auto r) __attribute__((always_inline)) {
        if (seen[r].first <= k && k < seen[r].last)
          tile.template step_row<r>(weight[r * TiledScratch<C>::stride + k], line);
      });
    }
  };
  some_rows(some.first, common.first);
  reduce(tile, weight, TiledScratch<C>::stride, values, slabs, common.first, common.last,
         [&](Index k) __attribute__((always_inline)) { request<N, Few>(values, slabs, k, ahead); });
  some_rows(common.empty() ? some.first : common.last, some.last);

  unroll<R>([&](auto r) __attribute__((always_inline)) {
    if (!seen[r].empty()) join_sum<r>(tile, rows[r], sum + r * o_stride);
  });
}

/// The lines that hold some keys of a block.
constexpr KeyRange lines_of(KeyRange keys) noexcept { return {keys.first / lanes, ceil_div(keys.last, lanes)}; }

/// The larger of m and the logits on some lines, hidden ones being -inf.
template <class C>
[[gnu::always_inline]] inline C row_maximum(const C* score, KeyRange lines, C m) noexcept {
  using V = Simd<C>;
  // Two chains: one would wait for each comparison before the next.
  auto even = V::broadcast(m), odd = even;
  Index at = lines.first * lanes;
  for (; at + 2 * V::width <= lines.last * lanes; at += 2 * V::width) {
    even = V::larger(even, V::load(score + at));
    odd = V::larger(odd, V::load(score + at + V::width));
  }
  if (at < lines.last * lanes) even = V::larger(even, V::load(score + at));
  return V::fold_larger(V::larger(even, odd));
}

/// Weights E(s - m) in place on some lines, and their sum. Over codes the weights are then multiplied by the values'
/// scales: rule 9.
template <class C, class S>
[[gnu::noinline]] C row_weights(const CacheBlock<S>& block, C* score, KeyRange lines, C m) noexcept {
  using V = Simd<C>;
  const auto anchor = V::broadcast(SoftmaxState<C>::anchor(m));
  typename V::Reg sum[per_line<C>];
  unroll<per_line<C>>([&](auto v) __attribute__((always_inline)) { sum[v] = V::zero(); });
  const auto weigh = [&]<int N>(Index line) __attribute__((always_inline)) {
    typename V::Reg p[static_cast<std::size_t>(N * per_line<C>)];
    unroll<N * per_line<C>>([&](auto v) __attribute__((always_inline)) {
      p[v] = V::sub(V::load(score + line * lanes + v * V::width), anchor);
    });
    exp_nonpositive<C>(p);
    unroll<N * per_line<C>>([&](auto v) __attribute__((always_inline)) {
      sum[v % per_line<C>] = V::add(sum[v % per_line<C>], p[v]);
      const Index at = line * lanes + v * V::width;
      if constexpr (is_quantised<S>) p[v] = V::mul(p[v], V::load(block.value_scales + at));
      V::store(score + at, p[v]);
    });
  };
  constexpr int together = per_line<C> < 4 ? 4 / per_line<C> : 1;
  Index line = lines.first;
  for (; line + together <= lines.last; line += together) weigh.template operator()<together>(line);
  for (; line < lines.last; ++line) weigh.template operator()<1>(line);
  return V::fold_sum(sum);
}

/// f.template operator()<R, Few>() for one of the few tiles that exist: the one that fills the registers, or 1, 4 or 8
/// rows that wait for memory anyhow. Tiles need not be full.
template <class C, class F>
[[gnu::always_inline]] inline void with_tile(Index height, F&& f) {
  static_assert(full_rows<C> <= most_tile_rows && tiled_row_block % full_rows<C> == 0);
  if (full_rows<C> == 1 || height == 1) return f.template operator()<1, true>();
  if constexpr (Simd<C>::decode_rows >= 4)
    if (height == 4) return f.template operator()<4, true>();
  if constexpr (Simd<C>::decode_rows >= 8)
    if (height == 8) return f.template operator()<8, true>();
  if constexpr (full_rows<C> > 1) f.template operator()<full_rows<C>, false>();
}
/// Few rows take tiles that request what comes next, also two of four rows where those of eight do not fit the
/// registers: 8 heads a group in AVX2 ran 1.4 times as fast as in two of six, 6 heads 1.06 times (Emerald Rapids).
template <class C>
constexpr Index tile_height(Index rows) noexcept {
  if (rows == 1) return 1;
  if (rows > 4 && rows <= 8 && Simd<C>::decode_rows >= 8) return 8;
  return rows <= 8 && Simd<C>::decode_rows >= 4 ? 4 : full_rows<C>;
}

/// The products of register tiles, whatever the policies. Defined outside of the class, so that a program of many
/// translation units may instantiate them in one of them.
template <class C, class S>
struct TileProducts {
  static void scores(Index height, const C* query, Index q_part, const CacheBlock<S>& block, Index head_dim,
                     Index first, Index last, C* score, Ahead& ahead) noexcept;
  static void weigh(Index height, const C* weight, const S* values, const RowInBlock<C>* rows, Index value_lines,
                    C* sum, Index o_stride, Ahead& ahead) noexcept;
  static void weigh_listed(const C* weight, const S* values, const std::uint16_t* keys, Index count,
                           const RowInBlock<C>& row, Index value_lines, C* sum) noexcept;
};

/// Logits of rows and key tiles [first, last) of `block`. A narrower tile at the end computes few keys beyond the last
/// one seen.
template <class C, class S>
void TileProducts<C, S>::scores(Index height, const C* query, Index q_part, const CacheBlock<S>& block, Index head_dim,
                                Index first, Index last, C* score, Ahead& ahead) noexcept {
  with_tile<C>(height, [&]<int R, bool Few>() __attribute__((always_inline)) {
    for_each_group<C, R, Few>(first, last, ahead, [&]<int N>(Index t) __attribute__((always_inline)) {
      score_lines<C, S, R, N, Few>(query, q_part, from_tile(block, t, head_dim), head_dim, score + t * lanes, ahead);
    });
  });
}
/// o = fma(o, alpha, o_b) for rows and all lines of values.
template <class C, class S>
void TileProducts<C, S>::weigh(Index height, const C* weight, const S* values, const RowInBlock<C>* rows,
                               Index value_lines, C* sum, Index o_stride, Ahead& ahead) noexcept {
  with_tile<C>(height, [&]<int R, bool Few>() __attribute__((always_inline)) {
    for_each_group<C, R, Few>(0, value_lines, ahead, [&]<int N>(Index l) __attribute__((always_inline)) {
      weigh_lines<C, S, R, N, Few>(weight, values + l * BlockLayout<S>::value_slab, rows, sum + l * lanes, o_stride,
                                   ahead);
    });
  });
}
/// The same for one row whose keys are listed.
template <class C, class S>
void TileProducts<C, S>::weigh_listed(const C* weight, const S* values, const std::uint16_t* keys, Index count,
                                      const RowInBlock<C>& row, Index value_lines, C* sum) noexcept {
  using Line = Lines<C, S, 1>;
  for (Index l = 0; l < value_lines; ++l) {
    RegisterTile<C, 1, 1> tile;
    tile.clear();
    for (Index i = 0; i < count; ++i) {
      typename Simd<C>::Reg line[Line::vectors];
      Line::load(values + l * BlockLayout<S>::value_slab, LinePlaces<1, lanes>{0}, keys[i], line);
      tile.template step_row<0>(weight[keys[i]], line);
    }
    join_sum<0>(tile, row, sum + l * lanes);
  }
}

/// The part of a block's keys, or values, that lies under key tiles [first_tile, last_tile). A cache need not have
/// memory for keys that nobody sees.
template <class S>
inline Ahead keys_ahead(const S* keys, Index head_dim, Index first_tile, Index last_tile) noexcept {
  if (keys == nullptr) return {};
  const Index tile = BlockLayout<S>::key_tile(head_dim), bytes = tile * static_cast<Index>(sizeof(S));
  return {keys + first_tile * tile, bytes, bytes, last_tile - first_tile};
}
template <class S>
inline Ahead values_ahead(const S* values, Index value_lines, Index first_tile, Index last_tile) noexcept {
  constexpr Index bytes = static_cast<Index>(sizeof(S));
  return {values + first_tile * lanes * lanes, (last_tile - first_tile) * lanes * lanes * bytes,
          BlockLayout<S>::value_slab * bytes, value_lines};
}

/// Rows of one kv head against the keys that they see.
template <class C, class Cache, class Rules>
struct TiledTask {
  using S = typename Cache::Storage;
  using V = Simd<C>;
  using Scratch = TiledScratch<C>;

  const AttentionCall<C, Cache>& call;
  const Rules& rules;
  const TiledRows& part;
  const Scratch& scratch;
  const bool one_split = false;  // the task is one split of what the rows see, not all of it
  const typename Rules::Pattern pattern = rules.dropout.bind(call.stream);
  const C factor = static_cast<C>(pattern.factor());
  const Index value_lines = ceil_div(rules.v_head_dim, lanes);
  KeyRange seen{};  // by some row
  Ahead next_queries = queries_of(part.next);

  /// Queries as they lie at the caller's, where a group's heads lie side by side.
  Ahead queries_of(const TiledRows* rows) const noexcept {
    if (rows == nullptr || rows->rows <= 0) return {};
    const Index first = rows->query_of(0), size = static_cast<Index>(sizeof(C));
    return {&call.query(first, rows->heads[0], 0), rows->group * rules.head_dim * size, call.query.stride[0] * size,
            rows->query_of(rows->rows - 1) + 1 - first};
  }

  /// Scales the queries and notes what each row may see.
  void load() noexcept {
    const C scale = static_cast<C>(rules.logits.scale(rules.head_dim));
    seen = {};
    Index i = part.query_of(0), in_group = part.first % part.group;
    for (Index r = 0; r < part.rows; ++r, ++in_group) {
      if (in_group == part.group) in_group = 0, ++i;  // a division for each row takes longer
      const Index head = part.heads[in_group];
      auto& row = *new (scratch.row + r) typename Scratch::Row{};
      row.q = call.row(i, head);
      row.range = rules.range(row.q, call.keys_of(row.q));
      seen = hull(seen, row.range);
      Index d = 0;
      if (call.query.stride[2] == 1)
        for (const C* in = &call.query(i, head, 0); d + V::width <= rules.head_dim; d += V::width)
          V::store(scratch.query_of(r, d), V::mul(V::load(in + d), V::broadcast(scale)));
      for (; d < rules.head_dim; ++d) *scratch.query_of(r, d) = rounded(call.query(i, head, d) * scale);
    }
    // The rest of the last tile: computed along, used nowhere.
    Index filled = HasOwnBlocks<Cache> ? part.rows + most_tile_rows - 1 : 0;
    while (filled < part.rows) filled += tile_height<C>(part.rows - filled);
    const std::size_t bytes = static_cast<std::size_t>((filled - part.rows) * Scratch::stride) * sizeof(C);
    for (Index d = 0; d < rules.head_dim; d += Scratch::row_size) std::memset(scratch.query_of(part.rows, d), 0, bytes);
  }

  /// The part of a block's keys of which the mask has to be asked, and what it says of it.
  Visibility look(const typename Scratch::Row& row, Index b, KeyRange& keys) const noexcept {
    keys = rules.narrowed(row.q, intersection(row.range, block_places(b)));
    return keys.empty() ? Visibility::none : rules.mask.block(row.q, keys);
  }

  /// One row's visible keys in a block; hidden logits on its lines become -inf. Lists the keys where they are not one
  /// range.
  Index prepare_row(QueryRow q, Index b, RowInBlock<C>& in_block, Visibility visibility, C* score,
                    std::uint16_t* listed) const noexcept {
    constexpr C hidden = -std::numeric_limits<C>::infinity();
    const Index base = b * block_keys;
    const auto [first, last] = in_block.keys;
    rules.transform(score + first, q, KeyRange{base + first, base + last});
    for (Index k = first / lanes * lanes; k < first; ++k) score[k] = hidden;
    // At once, beyond the line's end too: what is stored number by number would be read before it has arrived.
    for (Index k = last; k < last + lanes; k += V::width) V::store(score + k, V::broadcast(hidden));
    in_block.takes_part = true;
    in_block.listed = visibility == Visibility::some || rules.training;
    if (!in_block.listed) return 0;

    Index count = 0;
    in_block.takes_part = false;
    for (Index k = first; k < last; ++k) {
      if (visibility == Visibility::some && !rules.mask.visible(q, base + k)) {
        score[k] = hidden;
        continue;
      }
      in_block.takes_part = true;
      if (!rules.training || pattern.kept(q.head, q.place, base + k)) listed[count++] = static_cast<std::uint16_t>(k);
    }
    return count;
  }

  /// One block for one register tile, which takes as many of `left` rows as it has: how many. `next`: the keys of the
  /// block after this one.
  Index join_block(const CacheBlock<S>& block, Index b, Index first_row, Index left, Ahead next) noexcept {
    const Index height = tile_height<C>(left), rows = left < height ? left : height;
    RowInBlock<C> in_block[most_tile_rows];
    Visibility visibility[most_tile_rows];
    KeyRange some{};
    for (Index r = 0; r < rows; ++r) {
      KeyRange keys;
      visibility[r] = look(scratch.row[first_row + r], b, keys);
      if (visibility[r] == Visibility::none) continue;
      in_block[r].keys = {keys.first - b * block_keys, keys.last - b * block_keys};
      some = hull(some, in_block[r].keys);
    }
    if (some.empty()) return rows;

    const KeyRange tiles = lines_of(some);
    const bool waits = part.rows <= most_tile_rows;  // for keys and values
    Ahead values = values_ahead(block.values, value_lines, tiles.first, tiles.last), nothing;
    TileProducts<C, S>::scores(height, scratch.query_of(first_row), scratch.q_part, block, rules.head_dim, tiles.first,
                               tiles.last, scratch.score, waits ? values : next_queries);

    // All rows are prepared before their maxima are taken, and these before any exponential: none waits for another.
    Index listed_keys[most_tile_rows];
    for (Index r = 0; r < rows; ++r)
      if (visibility[r] != Visibility::none)
        listed_keys[r] = prepare_row(scratch.row[first_row + r].q, b, in_block[r], visibility[r], scratch.score_of(r),
                                     scratch.listed_of(r));
    for (Index r = 0; r < rows; ++r)
      if (auto& in = in_block[r]; in.takes_part)
        in.m = row_maximum(scratch.score_of(r), lines_of(in.keys), scratch.row[first_row + r].split.m);
    bool together = false;
    for (Index r = 0; r < rows; ++r) {
      auto& in = in_block[r];
      if (!in.takes_part) continue;
      auto& row = scratch.row[first_row + r];
      in.first_block = !row.seen;
      row.seen = true;
      in.alpha = row.split.join_block(in.m, row_weights(block, scratch.score_of(r), lines_of(in.keys), in.m));
      if (in.listed)
        TileProducts<C, S>::weigh_listed(scratch.score_of(r), block.values, scratch.listed_of(r), listed_keys[r], in,
                                         value_lines, scratch.split_sum_of(first_row + r));
      else
        together = true;
    }
    Ahead& after = waits ? left > rows ? nothing : next : next_queries;
    if (together)
      TileProducts<C, S>::weigh(height, scratch.score, block.values, in_block, value_lines,
                                scratch.split_sum_of(first_row), scratch.o_stride, after);
    return rows;
  }

  /// The keys that this thread reads after block b: the next block, or the first one of its next task, a split or a kv
  /// head.
  Ahead next_keys(Index b) const noexcept {
    constexpr Index in_split = split_keys / block_keys;
    Index kv_head = part.kv_head, next = b + 1;
    if (one_split && next % in_split == 0)
      next += (part.threads - 1) * in_split;
    else if (next * block_keys >= seen.last)
      kv_head += part.threads, next = seen.first / block_keys;
    if (kv_head >= rules.kv_heads || next * block_keys >= seen.last) return {};
    const Index keys = call.kv_len - next * block_keys < block_keys ? call.kv_len - next * block_keys : block_keys;
    return keys_ahead(call.cache->block(kv_head, next).keys, rules.head_dim, 0, ceil_div(keys, lanes));
  }

  /// A block of which each query has one of its own: a register tile holds the rows of one query.
  void join_own_blocks(Index b) noexcept {
    for (Index r = 0; r < part.rows;) {
      const Index i = part.query_of(r), left = (i + 1) * part.group - (part.first + r);
      const Index last = r + (left < part.rows - r ? left : part.rows - r);
      if (scratch.row[r].q.place < b * block_keys) {
        r = last;
        continue;
      }
      const auto block = block_of(call, part.kv_head, b, i, scratch.own);
      while (r < last) r += join_block(block, b, r, last - r, {});
    }
  }

  /// Split s of what the rows may see: rule 4.
  void run_split(Index s) noexcept {
    for (Index r = 0; r < part.rows; ++r) {
      scratch.row[r].split = {};
      scratch.row[r].seen = false;
    }
    const KeyRange keys = intersection(seen, {s * split_keys, (s + 1) * split_keys});
    for (Index b = keys.first / block_keys; b * block_keys < keys.last; ++b) {
      if constexpr (HasOwnBlocks<Cache>)
        if (b >= call.cache->own_from()) {
          join_own_blocks(b);
          continue;
        }
      const auto block = call.cache->block(part.kv_head, b);
      const Ahead next = next_keys(b);
      for (Index r = 0; r < part.rows;) r += join_block(block, b, r, part.rows - r, next);
    }
  }

  /// A split joins row r: O = fma(O, a, fl(w o)), rule 5. Its sum o null: zeros, as a sink has.
  void fold(Index r, const SoftmaxState<C>& split, const C* split_sum) noexcept {
    auto& row = scratch.row[r];
    C* sum = scratch.row_sum_of(r);
    const auto fold = row.total.join_split(split);
    const auto a = V::broadcast(fold.old_factor), w = V::broadcast(fold.new_factor);
    for (Index d = 0; d < value_lines * lanes; d += V::width) {
      const auto o = V::mul(w, split_sum != nullptr ? V::load(split_sum + d) : V::zero());
      V::store(sum + d, V::fma(row.folded ? V::load(sum + d) : V::zero(), a, o));
    }
    row.folded = true;
  }

  /// Context and log-sum-exp of all rows, and what else is asked for: rule 5.
  void finish() noexcept {
    for (Index r = 0; r < part.rows; ++r) {
      auto& row = scratch.row[r];
      const Index i = row.q.row - call.first_row, head = row.q.head;
      C* sum = scratch.row_sum_of(r);
      if constexpr (Rules::Sinks::active)
        fold(r, SoftmaxState<C>::of_sink(static_cast<C>(rules.sinks.logit(head))), nullptr);
      C* to = &call.context(i, head, 0);
      const auto l = V::broadcast(row.total.l);
      for (Index d = 0; d < rules.v_head_dim; d += V::width) {
        const auto o = row.folded ? V::load(sum + d) : V::zero();
        auto out = V::canonical(row.total.l == 0 ? V::zero_unless_nan(o) : V::div(o, l));
        if (rules.training) out = V::canonical(V::mul(out, V::broadcast(factor)));
        if (call.context.stride[2] == 1 && d + V::width <= rules.v_head_dim) {
          V::store(to + d, out);
          continue;
        }
        V::store(sum + d, out);
        for (Index e = d; e < d + V::width && e < rules.v_head_dim; ++e) to[e * call.context.stride[2]] = sum[e];
      }
      if (call.lse.present()) call.lse(head, i) = log_sum_exp(row.total);
      if (call.weights.present()) write_weights(r);
      if (call.raw_logits.present()) write_logits(r);
    }
  }

  /// Scaled products of one row and the keys of a block, from key `first` of it on.
  void row_scores(Index r, Index b, Index first, Index last) noexcept {
    Ahead nothing;
    TileProducts<C, S>::scores(1, scratch.query_of(r), scratch.q_part,
                               block_of(call, part.kv_head, b, part.query_of(r), scratch.own), rules.head_dim,
                               first / lanes, ceil_div(last, lanes), scratch.score, nothing);
  }

  /// Attention weights of a row, from the finished maximum and sum: rule 5.
  void write_weights(Index r) noexcept {
    const auto& row = scratch.row[r];
    const auto weights = call.weights.at(row.q.head).at(part.query_of(r));
    for (Index j = 0; j < weights.extent[0]; ++j) weights(j) = 0;
    if (row.total.l == 0) return;
    for (Index b = row.range.first / block_keys; b * block_keys < row.range.last; ++b) {
      KeyRange keys;
      const Visibility visibility = look(row, b, keys);
      if (visibility == Visibility::none) continue;
      const Index base = b * block_keys;
      row_scores(r, b, keys.first - base, keys.last - base);
      rules.transform(scratch.score + (keys.first - base), row.q, keys);
      for (Index j = keys.first; j < keys.last; ++j) {
        if (visibility == Visibility::some && !rules.mask.visible(row.q, j)) continue;
        if (rules.training && !pattern.kept(row.q.head, row.q.place, j)) continue;
        const C p = lockstep::exp_nonpositive(rounded(scratch.score[j - base] - SoftmaxState<C>::anchor(row.total.m)));
        const C weight = canonical(quotient(p, row.total.l));
        weights(j) = rules.training ? canonical(weight * factor) : weight;
      }
    }
  }

  /// Logits of a row on request, at the stage asked for, of all keys that are there.
  void write_logits(Index r) noexcept {
    const QueryRow q = scratch.row[r].q;
    const auto logits = call.raw_logits.at(q.head).at(part.query_of(r));
    const Index kv_len = call.keys_of(q);
    for (Index b = 0; b * block_keys < kv_len; ++b) {
      const KeyRange keys = intersection({0, kv_len}, block_places(b));
      row_scores(r, b, 0, keys.size());
      rules.bring_to_stage(scratch.score, q, keys, kv_len);
      for (Index j = keys.first; j < keys.last; ++j) logits(j) = canonical(scratch.score[j - keys.first]);
    }
    for (Index j = kv_len; j < logits.extent[0]; ++j) logits(j) = -std::numeric_limits<C>::infinity();
  }
};

/// A whole task: all splits of some rows, folded in place order, finished.
template <class C, class Cache, class Rules>
[[gnu::noinline]] void attend_rows(Set, const AttentionCall<C, Cache>& call, const Rules& rules, const TiledRows& part,
                                   const TiledScratch<C>& scratch) noexcept {
  const VectorScope scope;
  TiledTask<C, Cache, Rules> task{call, rules, part, scratch};
  task.load();
  for (Index s = task.seen.first / split_keys; s * split_keys < task.seen.last; ++s) {
    task.run_split(s);
    for (Index r = 0; r < part.rows; ++r)
      if (scratch.row[r].seen) task.fold(r, scratch.row[r].split, scratch.split_sum_of(r));
  }
  task.finish();
}

/// One split of some rows, kept as it is: what threads of a long decode bring.
template <class C, class Cache, class Rules>
[[gnu::noinline]] void attend_split(Set, const AttentionCall<C, Cache>& call, const Rules& rules, const TiledRows& part,
                                    Index s, const TiledScratch<C>& scratch, SplitState<C>* state, C* sums) noexcept {
  const VectorScope scope;
  TiledTask<C, Cache, Rules> task{call, rules, part, scratch, true};
  task.load();
  task.run_split(s);
  for (Index r = 0; r < part.rows; ++r) {
    state[r] = {scratch.row[r].split, scratch.row[r].seen};
    if (state[r].seen)
      std::memcpy(sums + r * scratch.o_stride, scratch.split_sum_of(r),
                  static_cast<std::size_t>(task.value_lines * lanes) * sizeof(C));
  }
}

/// Folds `splits` kept splits of some rows, split s of row r at state[(s + 1) rows + r], into the rows at state[r],
/// which have gone through others before if `goes_on`, and finishes them if `ends`.
template <class C, class Cache, class Rules>
[[gnu::noinline]] void fold_rows(Set, const AttentionCall<C, Cache>& call, const Rules& rules, const TiledRows& part,
                                 Index splits, bool goes_on, bool ends, const TiledScratch<C>& scratch,
                                 SplitState<C>* state, C* sums) noexcept {
  const VectorScope scope;
  TiledTask<C, Cache, Rules> task{call, rules, part, scratch};
  task.load();
  const std::size_t row_bytes = static_cast<std::size_t>(scratch.o_stride) * sizeof(C);
  for (Index r = 0; r < part.rows; ++r) {
    auto& row = scratch.row[r];
    if (goes_on) row.total = state[r].state, row.folded = state[r].seen;
    if (goes_on) std::memcpy(scratch.row_sum_of(r), sums + r * scratch.o_stride, row_bytes);
    for (Index at = part.rows + r; at <= splits * part.rows + r; at += part.rows)
      if (state[at].seen) task.fold(r, state[at].state, sums + at * scratch.o_stride);
    state[r] = {row.total, row.folded};
    if (!ends) std::memcpy(sums + r * scratch.o_stride, scratch.row_sum_of(r), row_bytes);
  }
  if (ends) task.finish();
}
