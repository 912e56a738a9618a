"""An agent in plain Python: everyone walks down the distance to the nearest exit, around the fire."""

import json
import sys

STEPS = {"stay": (0, 0), "north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}
print(sys.stdin.readline() and '{"agent_protocol_version":"1.0","name":"shortest-path","version":"1"}', flush=True)
for line in sys.stdin:
    seen = json.loads(line)
    shut = {tuple(cell) for cell in seen["map"]["obstacles"] + seen["burning"]}
    distance = {tuple(e["position"]): 0 for e in seen["map"]["exits"] if tuple(e["position"]) not in shut}
    for row, col in (queue := list(distance)):
        for near in ((row + down, col + right) for down, right in STEPS.values()):
            inside = 0 <= near[0] < seen["map"]["height"] and 0 <= near[1] < seen["map"]["width"]
            if inside and near not in shut and near not in distance:
                distance[near] = distance[row, col] + 1
                queue.append(near)
    people = {p["id"]: p["position"] for p in seen["people"] if p["status"] == "active"}
    ways = {p: {s: distance.get((r + d, c + e), 1e9) for s, (d, e) in STEPS.items()} for p, (r, c) in people.items()}
    print(json.dumps({"actions": {p: min(way, key=way.get) for p, way in ways.items()}}), flush=True)
