"""The console script `ember`: one command a module."""

import sys

import typer

from ember_cli import (
    bench,
    check_suite,
    compare,
    console,
    efficiency,
    evaluate,
    generate,
    import_,
    leaderboard,
    merge,
    metrics,
    operational,
    pack,
    references,
    replay,
    run,
    score,
    statistics,
    survivability,
    sweep,
    verify,
    world,
)

app = typer.Typer(
    name="ember",
    help="The EMBER evacuation benchmark: exact fires, episodes and scores.\n\n"
    "Compiled programs are kept in the user's cache folder; EMBER_CACHE=FOLDER moves it, EMBER_CACHE=off turns "
    "it off.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("world")(world.world)
app.command("run")(run.run)
app.command("references")(references.references)
app.command("replay")(replay.replay)
app.command("metrics")(metrics.metrics)
app.command("verify")(verify.verify)
app.command("sweep")(sweep.sweep)
app.command("survivability")(survivability.survivability)
app.command("merge")(merge.merge)
app.command("import")(import_.import_)
app.command("generate")(generate.generate)
app.command("check-suite")(check_suite.check_suite)
app.command("statistics")(statistics.statistics)
app.command("score")(score.score)
app.command("compare")(compare.compare)
app.command("leaderboard")(leaderboard.leaderboard)
app.command("operational")(operational.operational)
app.command("efficiency")(efficiency.efficiency)
app.command("bench")(bench.bench)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(pack.app, name="pack")


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(console.run(app))


if __name__ == "__main__":
    main()
