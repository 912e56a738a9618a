// The fire (contract section 4).
#pragma once

#include "scenario.h"
#include "stream.h"

// A fire that keeps its candidates: a set of cells as bits, so that they come in row-major order, and the number
// of burning neighbours of every cell.
class Fire {
  public:
    std::vector<uint32_t> ignition_step;  // [cells], NEVER while a cell does not burn
    std::vector<int> ignited;             // by the last step
    uint32_t burned = 0;
    Stream stream;

    Fire(const Scenario &scenario, const Grid &grid, uint64_t seed)
        : ignition_step(grid.cells, NEVER), stream("fire", seed), scenario_(scenario), grid_(grid),
          candidates_((grid.cells + 63) / 64), neighbours_(grid.cells) {
        ignited = grid.ignition;
        ignite(0);
    }

    bool burns(int cell) const { return ignition_step[cell] != NEVER; }

    // Make step t.
    void step(int t) {
        ignited.clear();
        if (t % scenario_.spread_interval) return;
        for (size_t word = 0; word < candidates_.size(); word++)
            for (uint64_t rest = candidates_[word]; rest; rest &= rest - 1) {
                const int cell = int(64 * word) + __builtin_ctzll(rest);
                bool success = !scenario_.stochastic;
                if (scenario_.stochastic)
                    for (int i = 0; i < neighbours_[cell]; i++) success |= stream.bernoulli(scenario_.threshold);
                if (success) ignited.push_back(cell);
            }
        ignite(t);
    }

    // Run on to the horizon from step `t`, the last one made.
    void finish(int t) {
        const int interval = scenario_.spread_interval;
        for (t = (t / interval + 1) * interval; t <= scenario_.max_steps && any_candidate(); t += interval) step(t);
    }

  private:
    const Scenario &scenario_;
    const Grid &grid_;
    std::vector<uint64_t> candidates_;
    std::vector<uint8_t> neighbours_;

    bool any_candidate() const {
        for (const uint64_t word : candidates_)
            if (word) return true;
        return false;
    }

    void ignite(int t) {
        burned += uint32_t(ignited.size());
        for (const int cell : ignited) {
            ignition_step[cell] = uint32_t(t);
            candidates_[cell / 64] &= ~(uint64_t(1) << cell % 64);
        }
        for (const int cell : ignited)
            for (int d = 1; d <= 4; d++) {
                const int near = cell + grid_.direction[d];
                neighbours_[near]++;
                if (grid_.flammable[near] && !burns(near)) candidates_[near / 64] |= uint64_t(1) << near % 64;
            }
    }
};

// The fire as the contract words it: every step looks at every cell. The yardstick "plain loop" of the docs.
inline Stream dense_fire(const Scenario &scenario, const Grid &grid, uint64_t seed, std::vector<uint32_t> &steps) {
    Stream stream("fire", seed);
    steps.assign(grid.cells, NEVER);
    for (const int cell : grid.ignition) steps[cell] = 0;
    for (int t = scenario.spread_interval; t <= scenario.max_steps; t += scenario.spread_interval) {
        bool some = false;
        for (const int cell : grid.inner) {
            if (!grid.flammable[cell] || steps[cell] < uint32_t(t)) continue;
            bool success = false;
            for (int d = 1; d <= 4; d++)
                if (steps[cell + grid.direction[d]] < uint32_t(t)) {
                    some = true;
                    success |= !scenario.stochastic || stream.bernoulli(scenario.threshold);
                }
            if (success) steps[cell] = uint32_t(t);
        }
        if (!some) break;
    }
    return stream;
}
