"""A clock for budgets that stands still until an activity has asked so often, and then leaps: limits pass at chosen points."""

from ocp import interrupts

LIMIT = 10.0


class StoppingClock:
    """``count``: how often the activity may ask before. leap [s]: how far after the limit the clock stands from then on; ctrl_c:
    whether the user stops the work there, in place of the limit. asked: how often the activity has asked since."""

    def __init__(self, activity, count=0, leap=1000.0, ctrl_c=False):
        self.activity, self.left, self.leap, self.ctrl_c = activity, count, leap, ctrl_c
        self.now, self.asked, self.seen = 0.0, 0, []

    @property
    def passed(self):
        return self.left < 0

    def __call__(self):
        here = interrupts.activity()
        if here is not None and here is self.activity:
            self.left -= 1
            if self.left == -1:
                if self.ctrl_c:
                    own, self.activity = self.activity, None  # to stop reads the clock, too
                    interrupts.stop()
                    self.activity, self.now = own, self.leap
                else:
                    self.now = LIMIT + self.leap
            self.asked += self.passed
        self.seen += [here] if here is not None and here not in self.seen else []
        return self.now

    def limited(self):
        return interrupts.limited(LIMIT, self)
