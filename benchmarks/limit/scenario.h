// A scenario as flat arrays, and a grid with a border of walls, so that no neighbour needs a bounds check.
//
// Plain scalar C++: no intrinsics, no batching. What it computes is written in the contract; the section numbers
// in these files are the contract's.
#pragma once

#include <cstdint>
#include <vector>

// The layout of benchmarks.scalar.Scenario.
struct Scenario {
    int32_t height, width;
    int32_t exits, people, ignitions;  // how many
    int32_t max_steps, spread_interval;
    int32_t stochastic, exits_flammable, fire_blocks;
    uint64_t threshold;         // ceil(p * 2^53)
    const uint8_t *open;        // [height * width], exits included
    const int32_t *exit_cell;   // row-major cells, in ID order
    const int32_t *person_cell; // row-major cells, in ID order
    const int32_t *ignition_cell;
};

constexpr uint32_t NEVER = 0xFFFFFFFF;
constexpr int NOBODY = -1;

// Cells are numbered row-major on the grid with its border, so their order is that of the contract.
struct Grid {
    int height, width, stride, cells;
    int direction[5];               // stay, north, south, east, west
    std::vector<uint8_t> open;      // exits included
    std::vector<uint8_t> flammable;
    std::vector<int> exit_of;       // index of the exit, or NOBODY
    std::vector<int> exit, person, ignition;
    std::vector<int> inner;         // all cells but the border

    explicit Grid(const Scenario &scenario)
        : height(scenario.height), width(scenario.width), stride(width + 2), cells((height + 2) * stride),
          direction{0, -stride, stride, 1, -1}, open(cells), flammable(cells), exit_of(cells, NOBODY) {
        for (int row = 0; row < height; row++)
            for (int col = 0; col < width; col++) {
                const int cell = at(row * width + col);
                inner.push_back(cell);
                open[cell] = flammable[cell] = scenario.open[row * width + col];
            }
        for (int i = 0; i < scenario.exits; i++) {
            exit.push_back(at(scenario.exit_cell[i]));
            exit_of[exit.back()] = i;
            if (!scenario.exits_flammable) flammable[exit.back()] = 0;
        }
        for (int i = 0; i < scenario.people; i++) person.push_back(at(scenario.person_cell[i]));
        for (int i = 0; i < scenario.ignitions; i++) ignition.push_back(at(scenario.ignition_cell[i]));
    }

    int at(int unpadded) const { return (unpadded / width + 1) * stride + unpadded % width + 1; }
};
