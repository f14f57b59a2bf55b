"""The protocol between an engine and the sessions that debug it.

An engine knows one framework: what its sessions are, or where the runs of a program begin and end,
how to compute the same run and keep its intermediate tensors. It knows nothing of commands or
screens. docs/engines.md walks through it step by step.
"""

from __future__ import annotations

from tfdbg_cli.engines.base.adapters import (
    Adapter,
    HasHooks,
    KnowsSeed,
    MakesCallables,
    MakesDefault,
    MeetsRanks,
    ProfilesRuns,
    ProgramAdapter,
    SessionAdapter,
    StepsRuns,
)
from tfdbg_cli.engines.base.engine import (
    Engine,
    HasFunctions,
    HostOf,
    ProgramEngine,
    SessionEngine,
    ShowsOpenRuns,
    StepsCalls,
    TellsUse,
    WrapSession,
)
from tfdbg_cli.engines.base.ranks import KeyMeeting, Meeting
from tfdbg_cli.engines.base.runs import (
    Capture,
    Glimpse,
    ProgramRun,
    RunAction,
    RunCall,
    RunHandle,
    RunHost,
    Watch,
)
from tfdbg_cli.engines.base.stepped import (
    CannotStep,
    HasGradients,
    OpenEndedRun,
    SteppedRun,
    no_modules,
)

__all__ = [
    "Adapter",
    "CannotStep",
    "Capture",
    "Engine",
    "Glimpse",
    "HasFunctions",
    "HasGradients",
    "HasHooks",
    "HostOf",
    "KeyMeeting",
    "KnowsSeed",
    "MakesCallables",
    "MakesDefault",
    "Meeting",
    "MeetsRanks",
    "OpenEndedRun",
    "ProfilesRuns",
    "ProgramAdapter",
    "ProgramEngine",
    "ProgramRun",
    "RunAction",
    "RunCall",
    "RunHandle",
    "RunHost",
    "SessionAdapter",
    "SessionEngine",
    "ShowsOpenRuns",
    "SteppedRun",
    "StepsCalls",
    "StepsRuns",
    "TellsUse",
    "Watch",
    "WrapSession",
    "no_modules",
]
