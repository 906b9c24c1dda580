"""A member that only counts: it joins, counts steps, and tells on its output all that happens.

It is run as a process of its own: `python -m tests.unit.train.bus.counting '{"index": 0, ...}'`.
Members meet before every step at the meeting point of their plan, as collectives make them do.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

from swell.api.report import TrainingReport
from swell.train.bus import open_group
from swell.train.bus.plan import NOTHING, Departure, Held
from swell.train.place import Place
from tests.unit.train.bus.meeting import Meeting, MeetingBrokenError


def tell(**facts: object) -> None:
    sys.stdout.write(json.dumps({"at": time.time(), **facts}) + "\n")
    sys.stdout.flush()


def main(settings: dict[str, object]) -> int:
    place = Place(
        job="job",
        role="trainer",
        index=int(str(settings["index"])),
        instance=int(str(settings["instance"])),
        members=Path(str(settings["members"])),
        address=str(settings["address"]),
        bus_port=int(str(settings["port"])),
        secret=str(settings.get("secret", "")).encode(),
        release=Path(str(settings["release"])) if settings.get("release") else None,
    )
    with contextlib.closing(Meeting(place.address)) as meeting:
        return count(place, meeting, settings)


def count(place: Place, meeting: Meeting, settings: dict[str, object]) -> int:
    step_s, n_steps = float(str(settings["step_s"])), int(str(settings["steps"]))
    group = open_group(
        place,
        minimum=int(str(settings.get("minimum", 1))),
        meeting_port=meeting.port,
        on_abort=meeting.abort,
    )
    held, trained = NOTHING, False
    breaks_at = settings.get("breaks_at")  # here alone: the others have done this step
    while True:
        answer = group.join(held, trained=trained)
        if isinstance(answer, Departure):
            tell(departs=answer.value, step=held.step, generation=held.generation)
            group.close()
            return 0 if answer is Departure.FINISHED else 143
        plan = answer
        rank = plan.rank_of(place.index)
        tell(plan=plan.generation, members=[m.index for m in plan.members], source=plan.source)
        try:
            step = meeting.take_state(plan, rank, held.step)
            held, trained = Held(plan.generation, step), True
            while held.step < n_steps and group.begin(held.step + 1):
                meeting.wait_for_all(plan, rank, held.step + 1)
                if group.is_aborted(plan.generation):
                    raise MeetingBrokenError
                if held.step + 1 == breaks_at:
                    breaks_at = None
                    raise MeetingBrokenError
                held = Held(plan.generation, held.step + 1)
                tell(step=held.step, generation=plan.generation, size=plan.size)
                group.publish(TrainingReport(plan.generation, plan.epoch, plan.size, held.step))
                time.sleep(step_s)
        except MeetingBrokenError:
            tell(failed=plan.generation, step=held.step)
            group.failed(plan.generation)
            continue
        finally:
            meeting.leave()
        if held.step >= n_steps and group.conclude(plan.generation):
            tell(done=held.step)
            group.finish()
            return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
