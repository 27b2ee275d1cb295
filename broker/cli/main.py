"""The command line: `sluice run`, `top`, `dashboard`, `ctl`, `store`, `config`, `user`, `compact`, `report` ...."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

import config
from broker.cli.ctl import ctl_app
from broker.cli.dashboard import print_link, print_new_link
from broker.cli.importing import import_app
from broker.cli.mistakes import Commands
from broker.cli.options import CONFIG_PROBLEM, configured
from broker.cli.store import store_app
from broker.cli.top.command import top
from broker.cli.user import user_app

if TYPE_CHECKING:
    from broker.server.server import Server

CANNOT_SERVE: Final = 1
"""Exit status when a listener or the journal cannot be opened."""

DISK_FAILED: Final = os.EX_IOERR
"""74: exit status when the journal's disk has failed while the broker ran (FC-29)."""

_RUN_JOB: Final = "import sys; from spark_jobs.cli import main; sys.exit(main(program='sluice'))"

PASSED_ON: Final[dict[str, Any]] = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The Spark job parses the options."""

app = typer.Typer(
    cls=Commands,
    help="Sluice: an MQTT 3.1.1 and 5.0 broker for fair, bounded delivery.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # in its tables, 80 columns are not enough for our flags
    context_settings={"help_option_names": ["--help", "-h"]},
)
config_app = typer.Typer(help="Show and check the configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(store_app, name="store")
app.add_typer(ctl_app, name="ctl")
app.add_typer(user_app, name="user")
app.add_typer(import_app, name="import")

Channel = Annotated[int | None, typer.Option("--cell", hidden=True, help="The descriptor of a cell's channel.")]
Gate = Annotated[bool, typer.Option("--developer-gate/--no-developer-gate", hidden=True)]
Dashboard = Annotated[
    bool,
    typer.Option(
        "--dashboard",
        help="Print a link to the dashboard: it lets one browser in. Without admin.listen, on a loopback port.",
    ),
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, whether it is compiled, and Python's.")
    ] = False,
) -> None:
    if version:
        from broker.server.starting import version as running

        print(f"sluice {running()}")
        raise typer.Exit


@app.command()
@configured
def run(
    loaded: config.Loaded, dashboard: Dashboard = False, cell: Channel = None, developer_gate: Gate = True
) -> None:
    """Serve MQTT clients until interrupted."""
    from broker.admin.server import start_admin
    from broker.cli.checking import unusable_tls
    from broker.server.logs import configure
    from broker.server.server import Server
    from broker.storage.errors import FailedError

    if problems := unusable_tls(loaded):
        print(f"sluice: {config.ConfigError(problems)}", file=sys.stderr)
        raise typer.Exit(CONFIG_PROBLEM)
    try:
        configure(loaded.config.log)
        if cell is None:
            _fit_journals(loaded.config)
            if loaded.config.cluster.count > 1:
                _run_cells(loaded, dashboard)
        show_link = print_link if dashboard else None
        if cell is None:
            _serve(Server(loaded.config, developer_gate, loaded, show_link, start_admin))
        else:
            from broker.server.membership import Membership

            membership = Membership(cell)
            own = membership.own(loaded)
            configure(own.config.log, membership.cell.number)
            _serve(Server(own.config, developer_gate, own, None, start_admin, membership))
    except FailedError as failure:
        print(f"sluice: {failure}", file=sys.stderr)
        raise typer.Exit(DISK_FAILED) from None
    except OSError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(CANNOT_SERVE) from None


app.command()(top)
app.command("dashboard")(print_new_link)


@config_app.command("show")
@configured
def show(loaded: config.Loaded) -> None:
    """Print the effective configuration, and where each value came from."""
    print(config.render(loaded))


@config_app.command("check")
def check(file: Annotated[Path, typer.Argument(help="YAML file to check.")]) -> None:
    """Report every mistake in a configuration file, with its key and what is expected."""
    from broker.cli.checking import access_files, bridges, certificate_dates, journal, mounts, unusable_tls

    problems = config.check(file)
    warnings: list[str] = []
    if not problems:
        loaded = config.load(file, environ={})
        out_of_date, soon = certificate_dates(loaded)
        replaced, alone = mounts(loaded)
        wrong, left_out = access_files(loaded)
        problems = [*unusable_tls(loaded), *out_of_date, *replaced, *wrong]
        warnings = [*soon, *alone, *left_out, *journal(loaded), *filter(None, [config.too_low(loaded.config)])]
        warnings += [*bridges(loaded), *config.dead_letter_warnings(loaded.config)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        raise typer.Exit(CONFIG_PROBLEM)
    for warning in warnings:
        print(f"{file}: warning: {warning}", file=sys.stderr)
    print(f"{file}: no mistakes found")


@app.command(context_settings=PASSED_ON, add_help_option=False)
def compact(context: typer.Context) -> None:
    """Add up exported metrics by session and hour.

    It needs the extra `report`.
    """
    _spark_jobs("compact", context)


@app.command(context_settings=PASSED_ON, add_help_option=False)
def report(context: typer.Context) -> None:
    """Make the fairness report from exported metrics.

    It needs the extra `report`.
    """
    _spark_jobs("report", context)


@app.command(context_settings=PASSED_ON, add_help_option=False)
def index(context: typer.Context) -> None:
    """Make an index page of many reports, with trends.

    It needs the extra `report`.
    """
    _spark_jobs("index", context)


def main() -> None:
    """Entry point of the `sluice` command."""
    app(prog_name="sluice")


def _spark_jobs(command: str, context: typer.Context) -> NoReturn:
    """Replace this process by the job, so that signals reach the job and its exit status is returned."""
    arguments = [sys.executable, "-c", _RUN_JOB, command, *context.args]
    os.execv(sys.executable, arguments)  # noqa: S606 - without a shell the arguments are passed unchanged


def _fit_journals(own: config.Config) -> None:
    """Bring the journals to the number of workers. Raises OSError."""
    from broker.resharding.layout import layout_of

    directory, workers = own.persistence.directory, own.cluster.count
    if directory is not None and not layout_of(directory).fits(workers):
        from broker.resharding.reshard import reshard
        from broker.server.server import raise_file_limit

        raise_file_limit()  # a segment needs a descriptor while it is written
        reshard(directory, workers, own.mqtt.overlapping_subscriptions == "merge")


def _run_cells(loaded: config.Loaded, dashboard: bool) -> NoReturn:
    """Run as the keeper of several cells. Raises OSError."""
    from broker.admin.host.start import start_host_admin
    from broker.server.host_admin import HostAdmin
    from broker.server.keeper import Keeper

    admin = HostAdmin(loaded, start_host_admin, print_link if dashboard else None)
    command = [sys.executable, *sys.orig_argv[1:], "--cell"]
    raise typer.Exit(asyncio.run(Keeper(admin, command).run()))


def _serve(server: "Server") -> None:
    """Run the server on uvloop, or on asyncio's own loop if uvloop is missing."""
    try:
        import uvloop
    except ImportError:
        from broker.server.asyncio_transport import mend

        mend()
        run_on_loop = asyncio.run
    else:
        run_on_loop = uvloop.run
    try:
        run_on_loop(server.run())
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # Python gives back others: one would replace the exit status
            signal.signal(number, signal.SIG_IGN)
