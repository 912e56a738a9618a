// Privileged references by backward induction over whole layers (contract section 8).
#pragma once

#include <algorithm>

#include "fire.h"

struct Values {
    uint32_t earliest = NEVER, moves = NEVER, danger = NEVER;
};

inline uint32_t plus(uint32_t value, uint32_t more) { return value == NEVER ? NEVER : value + more; }

// The tables at step 0, on the fire world given.
inline std::vector<Values> first_tables(const Scenario &scenario, const Grid &grid, const std::vector<uint32_t> &burns) {
    // The least ignition step within Manhattan distance 2: twice the least of a cell and its neighbours.
    std::vector<uint32_t> near(burns), from(grid.cells, NEVER);
    for (const int cell : grid.inner)
        for (int d = 1; d <= 4; d++) near[cell] = std::min(near[cell], burns[cell + grid.direction[d]]);
    for (const int cell : grid.inner)
        for (int d = 0; d <= 4; d++) from[cell] = std::min(from[cell], near[cell + grid.direction[d]]);
    std::vector<int> floor;
    for (const int cell : grid.inner)
        if (grid.open[cell] && grid.exit_of[cell] == NOBODY) floor.push_back(cell);

    std::vector<Values> after(grid.cells), now(grid.cells);
    for (int step = scenario.max_steps - 1; step >= 0; step--) {
        const uint32_t t = uint32_t(step);
        for (const int cell : floor) {
            Values best;
            if (burns[cell] > t) {
                const uint32_t z = from[cell] <= t;
                if (burns[cell] > t + 1) best = after[cell];
                for (int d = 1; d <= 4; d++) {
                    const int next = cell + grid.direction[d];
                    if (!grid.open[next] || burns[next] <= t) continue;
                    if (grid.exit_of[next] != NOBODY) {
                        best.earliest = t + 1, best.moves = 1, best.danger = 0;
                    } else if (burns[next] > t + 1) {
                        best.earliest = std::min(best.earliest, after[next].earliest);
                        best.moves = std::min(best.moves, plus(after[next].moves, 1));
                        best.danger = std::min(best.danger, after[next].danger);
                    }
                }
                best.danger = plus(best.danger, z);
            }
            now[cell] = best;
        }
        std::swap(now, after);
    }
    return after;
}
